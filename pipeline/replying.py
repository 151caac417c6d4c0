"""Replying: one reply from its first draft to its last sample; one task, cancelled as a unit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from pipeline.actions import Draft
from pipeline.config import PlaybackConfig
from pipeline.events import (
    ReplyAudio,
    ReplyCalled,
    ReplyEnded,
    ReplyStarted,
    ReplyStatus,
    ReplyText,
    ReplyWord,
    SessionEvent,
)
from pipeline.frames import SpokenAudio
from pipeline.playback import Playback
from pipeline.ports import ToolCall
from pipeline.respond import PreparedReply, Reply, Responder
from pipeline.speak import SpeechLink
from pipeline.timing import Clock, Mark, TurnRecord

Emit = Callable[[SessionEvent], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WayOut:
    """How a reply gets out: ``link`` is None for one that is only written, ``speed`` is the voice's.

    ``key`` names the request that the reply answers; ``on_call`` is told of a call before the client is.
    ``on_verdict`` gets the model's probability that the user was done, ``on_ready`` says that the first audio is
    made (or that there is none to wait for), ``clear_to_speak`` is awaited right before it leaves, the last chance
    to see that the user goes on, and ``on_heard`` is called as it leaves.
    """

    link: SpeechLink | None
    speed: float
    rate_hz: int
    playback: PlaybackConfig
    key: str
    emit: Emit
    on_call: Callable[[ToolCall], None]
    on_verdict: Callable[[float], Awaitable[None]]
    on_ready: Callable[[], Awaitable[None]]
    clear_to_speak: Callable[[], Awaitable[None]]
    on_heard: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ReplyOver:
    """A reply ran to its own end; how, and why it failed if it did."""

    reply: Replying
    status: ReplyStatus
    error: str


class Replying:
    """Prepares a reply at once and lets it out once it is committed."""

    def __init__(
        self, draft: Draft, prepared: PreparedReply, record: TurnRecord, clock: Clock, out: WayOut
    ) -> None:
        self.draft = draft
        self.prepared = prepared
        self.record = record
        self.began_at = clock()
        self.announced = False
        self._heard = False
        self.task: asyncio.Task[None] | None = None
        self._clock = clock
        self._out = out
        self._committed = asyncio.Event()
        self._reply: Reply | None = None
        self._playback: Playback | None = None
        self._heard_limit_ms: float | None = None

    async def run(self, responder: Responder) -> None:
        """Prepare, wait for the commit, let out. Raises StageError when the committed reply broke."""
        name = f"turn-{self.draft.turn}-{self.draft.number}"
        async with asyncio.TaskGroup() as work:
            work.create_task(self.prepared.prepare(responder, self._out.link, name, self._out.speed))
            work.create_task(self._report())
            await self._committed.wait()
            assert self._reply is not None
            await self._out.emit(ReplyStarted(self.draft.turn, self._out.key))
            self.announced = True
            work.create_task(self._show(self._reply))
            if self._out.link is not None:
                await self._speak(self._reply, self._out.rate_hz)

    @property
    def committed(self) -> bool:
        """Whether the draft is the reply."""
        return self._committed.is_set()

    def commit(self) -> None:
        """The draft is the reply."""
        self._reply = self.prepared.commit()
        self._committed.set()

    def pause(self) -> None:
        """Somebody speaks: fade out and hold."""
        if self._playback is not None:
            self.record.pauses += 1
            self._playback.pause()

    def resume(self) -> None:
        """It was nothing: go on from the exact sample."""
        if self._playback is not None:
            self._playback.resume()

    @property
    def playback(self) -> Playback | None:
        """What plays it; None before that, and where nothing is spoken."""
        return self._playback

    def limit_heard(self, ms: float) -> None:
        """The client says that it played no more of the reply than this."""
        self._heard_limit_ms = ms

    def heard_text(self) -> str:
        """What of the reply can have been heard by now; nothing of one that is only written."""
        if self._playback is None or self._reply is None:
            return ""
        return self._playback.heard_text(self._reply.text, self._heard_limit_ms)

    def said_text(self) -> str:
        """What of the reply has left for the loudspeaker, up to the word that has begun."""
        return self._playback.said_text() if self._playback is not None else ""

    def ended(self, status: ReplyStatus, error: str = "") -> ReplyEnded:
        """The event that closes the reply."""
        if self._playback is not None:
            self._playback.stop()
        text = self._reply.text if self._reply is not None else ""
        cut = status in ("cancelled", "failed") or self._heard_limit_ms is not None
        heard = self.heard_text() if cut else text
        if status == "completed" and self._reply is not None and self._reply.cut_short:
            status = "incomplete"
        turn, prepared = self.draft.turn, self.prepared
        return ReplyEnded(turn, status, text, heard, prepared.tokens, error, prepared.read)

    async def _report(self) -> None:
        await self.prepared.verdict_ready.wait()
        if self.prepared.text_done is not None:
            await self._out.on_verdict(self.prepared.text_done)
        await self.prepared.something_ready.wait()
        await self._out.on_ready()

    async def _show(self, reply: Reply) -> None:
        turn = self.draft.turn
        async for part in reply.parts():
            if isinstance(part, str):
                await self._out.emit(ReplyText(turn, part))
            else:
                self._out.on_call(part)
                await self._out.emit(ReplyCalled(turn, part))

    async def _speak(self, reply: Reply, rate_hz: int) -> None:
        self._playback = Playback(self._out.playback, self._clock, self._send, rate_hz)
        # A generator that is left in the middle would keep the whole session until it is collected.
        async with aclosing(reply.audio()) as made, aclosing(self._announced(made, rate_hz)) as pieces:
            await self._playback.play(pieces)

    async def _announced(
        self, pieces: AsyncIterator[SpokenAudio], rate_hz: int
    ) -> AsyncGenerator[SpokenAudio, None]:
        """The sound, after its words have been told."""
        per_ms = rate_hz / 1000
        async for piece in pieces:
            for word in piece.words:
                await self._out.emit(ReplyWord(self.draft.turn, word.text, word.start / per_ms, word.end / per_ms))
            yield piece

    async def _send(self, pcm: bytes, rate_hz: int) -> None:
        if not self._heard:
            await self._out.clear_to_speak()
            self._heard = True
            self.record.mark(Mark.FIRST_AUDIO_SENT, self._clock())
            self._out.on_heard()
        self.record.audio_s += len(pcm) / 2 / rate_hz
        await self._out.emit(ReplyAudio(self.draft.turn, pcm, rate_hz))
