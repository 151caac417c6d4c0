"""The Realtime endpoint's async shell: one protocol state, one session, and the socket that is there for them."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed

from pipeline.channel import Backlog
from pipeline.config import Config
from pipeline.events import ReplyAudio, TurnClosed
from pipeline.session import Session
from pipeline.timing import TurnRecord, loop_clock
from server.extras import extra_event, extra_events
from server.gate import TRY_LATER
from server.limits import Pace
from server.naps import NappingConnection
from server.outbox import Outbox, OutboxFull
from server.realtime import RealtimeProtocol
from server.wishes import grant

log = logging.getLogger(__name__)

NORMAL, GOING_AWAY, INTERNAL_ERROR = 1000, 1001, 1011
LAST_WORDS_S = 1.0  # for what is still to be told before a close, and for a reply to end once it is cancelled


@dataclass(frozen=True, slots=True)
class Parting:
    """How the server ends a conversation; with an ``error`` event first where ``code`` is given."""

    close_code: int
    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class _Return:
    """A client that came back: its new connection, the last event it got, and whether that connection is done."""

    connection: NappingConnection
    last_event: str
    done: asyncio.Event = field(default_factory=asyncio.Event)


class RealtimeDoor:
    """Carries one client's messages to the protocol and its wishes to the session, and events back.

    With ``?echoic=resume`` the conversation outlives its connection for a while: replies are held, and a client
    that comes back with the token hears on from where it was.
    """

    def __init__(
        self,
        connection: NappingConnection,
        session: Session,
        config: Config,
        wanted: Mapping[str, Any],
        on_turn: Callable[[str, TurnRecord], None],
    ) -> None:
        """``wanted``: session settings that came with the client's key. ``on_turn`` gets the session's id and the
        record of every turn that is over."""
        query = parse_qs(urlsplit(connection.request.path).query) if connection.request else {}
        extras = query.get("echoic", [])
        self.token = secrets.token_urlsafe() if "resume" in extras else ""
        self._connection = connection
        self._session = session
        session.on_lull = lambda: self._connection.nap()  # whichever connection is there by then
        self._limits = config.limits
        self._protocol = RealtimeProtocol(
            model=query.get("model", [config.llm.model])[0],
            instructions=session.history.instructions,
            voice=config.speech.voice,
            lasts_s=self._limits.session_s,
            extras="timing" in extras,
            private=session.private,
        )
        self._extras = frozenset(extras)
        self._wanted = wanted
        self._on_turn = on_turn
        self._outbox = Outbox(self._limits.unsent_ms, self._limits.unsent_ms if self.token else 0.0)
        self._parting: asyncio.Future[Parting] = asyncio.get_running_loop().create_future()
        self._turn_closed = asyncio.Event()
        self._let_go = asyncio.Event()  # the connection that is there is of no use any more
        self._return: _Return | None = None
        self._done = asyncio.Event()  # for whoever waits for the connection that is there

    @property
    def session_id(self) -> str:
        """The session's name, as its client knows it."""
        return self._protocol.session_id

    @property
    def close_code(self) -> int | None:
        """How the client's last connection was closed; None while it is open."""
        return self._connection.close_code

    def backlogs(self) -> tuple[Backlog, ...]:
        """What waits in the conversation's queues of sound."""
        return (*self._session.backlogs(), self._outbox.backlog)

    async def serve(self) -> None:
        """Converse until either side ends it. A bug in the session is told to the client and closes with 1011."""
        life_s = self._limits.session_s
        expired = Parting(GOING_AWAY, f"Your session hit the maximum duration of {life_s:g} s.", "session_expired")
        clock = asyncio.get_running_loop().call_later(life_s, self.part, expired)
        try:
            async with asyncio.TaskGroup() as work:
                running = work.create_task(self._session.run())
                telling = work.create_task(self._run_events())
                try:
                    await self._run_connections()
                finally:
                    await self._session.close()
                await running
                telling.cancel()
        except* Exception as bugs:
            log.error("session ended by an unexpected failure", exc_info=bugs)
            message = "Echoic failed unexpectedly; this session is over, please reconnect."
            await self._part(Parting(INTERNAL_ERROR, message, "internal_error"))
        finally:
            clock.cancel()
            self._done.set()
            if self._return is not None:
                self._return.done.set()

    async def take_over(self, connection: NappingConnection, last_event: str) -> None:
        """Go on with the client on another connection; returns once that one is done."""
        if self._return is not None:
            self._return.done.set()
        self._return = returned = _Return(connection, last_event)
        self._let_go.set()
        await returned.done.wait()

    def part(self, parting: Parting) -> None:
        """End the conversation; the first reason given counts."""
        if not self._parting.done():
            self._parting.set_result(parting)

    async def finish(self, deadline_s: float) -> None:
        """The server stops: let what is running end, for so long at most, cut what does not, and part."""
        try:
            await self._until_idle(deadline_s)
        except TimeoutError:
            await self._session.cancel()
            with suppress(TimeoutError):  # somebody is speaking: nothing to wait for
                await self._until_idle(LAST_WORDS_S)
        self.part(Parting(GOING_AWAY, "the server is stopping"))

    async def _until_idle(self, deadline_s: float) -> None:
        async with asyncio.timeout(deadline_s):
            while not self._session.idle:
                self._turn_closed.clear()
                await self._turn_closed.wait()

    # --- connections ---

    async def _run_connections(self) -> None:
        """Carry one connection after the other until the client ends the conversation or stays away."""
        self._tell()
        if self.token:
            self._outbox.push([extra_event("session", token=self.token, resume_s=self._limits.resume_s)])
        if self._wanted:
            await self._take(json.dumps({"type": "session.update", "session": dict(self._wanted)}))
        await self._carry()
        while self.token and not self._parting.done() and self._connection.close_code not in (NORMAL, GOING_AWAY):
            if not await self._await_return():
                return
            await self._carry()
        if self._parting.done():
            await self._part(self._parting.result())

    async def _carry(self) -> None:
        """Read and write until the client leaves, or there is a reason to part from it."""
        tasks = [
            asyncio.create_task(work) for work in (self._run_messages(), self._run_outbox(), self._let_go.wait())
        ]
        try:
            ends: list[asyncio.Future[Any]] = [*tasks, self._parting]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (bug := task.exception()):
                raise bug
        if self._let_go.is_set():
            self._connection.transport.abort()
            await self._connection.wait_closed()

    async def _await_return(self) -> bool:
        """The client is away: hold the replies until it comes back; False if it does not."""
        self._session.hold()
        self._outbox.hold()
        left_at = loop_clock()
        self._let_go.clear()
        if self._return is None:
            waiting = asyncio.create_task(self._let_go.wait())
            ends: list[asyncio.Future[Any]] = [waiting, self._parting]
            await asyncio.wait(ends, timeout=self._limits.resume_s, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            self._let_go.clear()
        if self._return is None:
            return False
        self._done.set()
        self._connection, self._done = self._return.connection, self._return.done
        lost = self._outbox.rewind(self._return.last_event)
        away_ms = round((loop_clock() - left_at) * 1000)
        self._outbox.put_first(extra_event("resumed", away_ms=away_ms, lost_events=lost))
        self._return = None
        self._session.release()
        return True

    async def _run_messages(self) -> None:
        pace = Pace(self._limits.bytes_per_s, self._limits.events_per_s, loop_clock)
        with suppress(ConnectionClosed):  # the client left
            async for message in self._connection:
                await self._take(message)
                await pace.take(len(message))

    async def _run_outbox(self) -> None:
        with suppress(ConnectionClosed):  # the client left
            while True:
                await self._connection.send(await self._outbox.next())

    async def _part(self, parting: Parting) -> None:
        """Tell what is left to be told, as far as the client takes it, and close."""
        if parting.code:
            self._protocol.fail(parting.reason, parting.code)
            self._tell()
        with suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                while self._outbox and parting.close_code != TRY_LATER:
                    await self._connection.send(self._outbox.take())
        await self._connection.close(parting.close_code, parting.reason[:120])

    # --- messages and events ---

    async def _take(self, message: str | bytes) -> None:
        wishes = self._protocol.receive(message)
        self._tell()
        for wish in wishes:
            await grant(wish, self._session, self._protocol)
        self._tell()

    async def _run_events(self) -> None:
        async for event in self._session.events:
            self._protocol.on_event(event)
            self._protocol.outgoing += extra_events(event, self._extras)
            self._tell(len(event.pcm) / 2 / event.rate_hz * 1000 if isinstance(event, ReplyAudio) else 0.0)
            if isinstance(event, TurnClosed):
                self._on_turn(self.session_id, event.record)
                self._turn_closed.set()
            del event  # what was said must not be held here until the next event
        self._turn_closed.set()

    def _tell(self, sound_ms: float = 0.0) -> None:
        """Queue what the protocol has to say, in its order, whoever made it say so."""
        outgoing, self._protocol.outgoing = self._protocol.outgoing, []
        if not outgoing:
            return
        try:
            self._outbox.push(outgoing, sound_ms)
        except OutboxFull as error:
            if self.token and not self._let_go.is_set():
                self._let_go.set()  # a dead connection looks like this, and its client may come back
            else:
                self.part(Parting(TRY_LATER, f"the client is too slow: {error}"))
