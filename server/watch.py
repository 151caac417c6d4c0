"""The watch over a server: its state, its metrics, its self-test, and a line in the log for every turn."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.loop_lag import SELDOM_S, run_loop_lag
from pipeline.session import Session
from pipeline.timing import TurnRecord, loop_clock
from server.health import ServerState, model_names
from server.metrics import Metrics
from server.self_test import SelfTest
from server.turn_log import log_turn

if TYPE_CHECKING:
    from server.app import Server

TEST_TOKENS = 8  # of the answer to a self-test: enough to speak


class Watch:
    """Sees one server. ``run`` is for who serves others; a server for its own process does without."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.metrics = Metrics(self.state)
        self.self_test = SelfTest(self._test_session, lambda: server.voice)

    async def run(self) -> None:
        """Measure how late the event loop is, and test the server while nobody is there; until cancelled."""
        every_s = self._server.config.server.self_test_s
        async with asyncio.TaskGroup() as work:
            work.create_task(run_loop_lag(self.metrics.note_loop_lag, tick_s=SELDOM_S))
            if every_s:
                work.create_task(self.self_test.run(every_s, self._idle))

    def turn_over(self, session_id: str, record: TurnRecord) -> None:
        """A turn of a conversation is over."""
        self.metrics.turn_over(session_id, record)
        log_turn(session_id, record)

    def state(self) -> ServerState:
        """What there is to know of the server now."""
        server, last = self._server, self.self_test.last
        return ServerState(
            models=model_names(server.config),
            sessions=server.sessions,
            max_sessions=server.config.server.max_sessions,
            speech_connections=server.speaking,
            full=server.full,
            stopping=server.stopping,
            share=server.models.cores.load.share(),
            backlogs=server.backlogs(),
            self_test=last,
            self_test_age_s=loop_clock() - last.ended_at if last else 0.0,
        )

    def _idle(self) -> bool:
        return not self._server.sessions and not self._server.speaking

    def _test_session(self) -> Session:
        """One that says little, and answers whatever the settings say."""
        config = self._server.config
        brief, answering = replace(config.llm, max_tokens=TEST_TOKENS), replace(config.turn, replies=True)
        return Session(self._server.new_stages(), replace(config, llm=brief, turn=answering), loop_clock)
