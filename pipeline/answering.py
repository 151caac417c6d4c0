"""Answering: gives every draft its task and its way out, which is shut while nobody is there to listen."""

from __future__ import annotations

import asyncio

from pipeline.actions import Draft
from pipeline.config import Config
from pipeline.desk import Desk
from pipeline.events import ReplyAudio, SessionEvent
from pipeline.hearing import Hearing
from pipeline.replying import Replying, ReplyOver, WayOut
from pipeline.respond import Responder
from pipeline.speak import SpeechLink


class Answering:
    """Starts replies. That one is over goes through the actions, so that it cannot cross with a cut."""

    def __init__(self, desk: Desk, hearing: Hearing, link: SpeechLink, config: Config) -> None:
        self._desk = desk
        self._hearing = hearing
        self._link = link
        self._config = config
        self._audience = asyncio.Event()
        self._audience.set()

    def hold(self) -> None:
        """Nobody is there to listen: replies are made, but their sound waits where it is."""
        self._audience.clear()

    def release(self) -> None:
        """Somebody listens again: replies go on from the exact sample."""
        self._audience.set()

    def expect(self) -> None:
        """The user speaks: a reply is to be expected."""
        if self._desk.replies.defaults.spoken:
            self._link.connect_ahead()

    def start(self, draft: Draft, responder: Responder | None = None) -> Replying:
        """A reply in the making, by the conversation's responder or by its own one, which is closed after it."""
        reply = self._desk.replies.prepare(draft, self._desk.records[draft.turn], self._way_out(draft))
        reply.task = self._desk.spawn(self._run(reply, responder))
        return reply

    async def _run(self, reply: Replying, responder: Responder | None) -> None:
        try:
            status, error = await self._desk.replies.run(reply, responder)
        finally:
            if responder is not None:
                await responder.close()
        await self._desk.actions.send(ReplyOver(reply, status, error))

    def _way_out(self, draft: Draft) -> WayOut:
        desk, request = self._desk, self._desk.replies.request(draft.turn)
        return WayOut(
            link=self._link if request.spoken else None,
            speed=request.speed,
            rate_hz=self._config.speech.rate_hz,
            playback=self._config.playback,
            key=request.key,
            emit=self._emit,
            on_call=lambda call: desk.replies.remember_call(draft.turn, call),
            on_verdict=lambda p: desk.ask_for(desk.keeper.on_text_done(draft, p, desk.clock())),
            on_ready=lambda: desk.ask_for(desk.keeper.on_audio_ready(draft, desk.clock())),
            clear_to_speak=self._clear_to_speak,
            on_heard=lambda: desk.keeper.on_reply_heard(draft.turn),
        )

    async def _emit(self, event: SessionEvent) -> None:
        if isinstance(event, ReplyAudio):
            await self._audience.wait()
        await self._desk.events.send(event)

    async def _clear_to_speak(self) -> None:
        """The last check before the first audio leaves; who goes on speaking has the reply cancelled meanwhile."""
        await self._audience.wait()
        await self._hearing.silence()
