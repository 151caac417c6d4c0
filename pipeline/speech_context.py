"""One reply on its way to sound: its phrases go out, its audio and its words come in.

Phrases are cut here and each is sent with ``flush``, so that none of them waits for more text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Protocol

from pipeline.channel import Channel, ChannelClosed
from pipeline.frames import SpokenAudio
from pipeline.phrases import PhraseCutter
from pipeline.ports import StageError
from pipeline.speakable import Speakable
from pipeline.speech_wire import ServerMessage, WordTimes

# A reply takes no more text while this much of its sound waits to be taken: a draft that is held back, or a reply
# that is played in real time, slows the model down instead of filling the memory.
ENOUGH_AUDIO_MS = 20_000.0
# What is on its way by then still fits, even a whole reply that was given in one piece. Beyond, the context fails:
# to wait instead would hold up the audio of the other contexts, and the pongs that keep the connection alive.
MAX_AUDIO_MS = 300_000.0


class Connection(Protocol):
    """What a context needs of the socket that it shares with others."""

    async def send(self, message: dict[str, Any]) -> None:
        """Send it. Raises StageError where the server does not take it."""

    def forget(self, context: SpeechContext) -> bool:
        """Whether the context was still in use; whatever comes for it from now on is ignored."""

    async def fail(self, context: SpeechContext, reason: str) -> None:
        """End one context with an error; the others go on."""

    async def drop(self, name: str) -> None:
        """Have the server stop a context. Never fails."""


class SpeechContext:
    """One reply (or draft) on its way to sound. ``say`` and ``finish`` may run in another task than ``audio``.

    ``first_phrase_at`` and ``first_audio_at`` are event loop times, None until then.
    """

    def __init__(self, connection: Connection, name: str, rate_hz: int, speed: float) -> None:
        self.name = name
        self.first_phrase_at: float | None = None
        self.first_audio_at: float | None = None
        self._connection = connection
        self._rate_hz = rate_hz
        self._speed = speed
        self._speakable = Speakable()
        self._cutter = PhraseCutter()
        self._words = WordTimes(rate_hz)
        self._samples = 0
        self._audio = Channel[SpokenAudio](f"speech {name}", MAX_AUDIO_MS, size=lambda piece: piece.duration_ms)
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._failure: str | None = None

    @property
    def waiting_ms(self) -> float:
        """Sound that nobody has taken yet."""
        return self._audio.depth

    async def say(self, text: str) -> None:
        """More of the reply, as the model writes it. Waits while there is enough audio that nobody has taken.

        Raises StageError once the context has failed; says nothing more once it was cancelled.
        """
        await self._send_phrases(self._cutter.push(self._speakable.push(text)))

    async def finish(self) -> None:
        """The reply is complete: speak the rest of it. Raises StageError once the context has failed."""
        await self._send_phrases(self._cutter.finish(self._speakable.finish()))
        if self.first_phrase_at is None:
            await self.end()  # nothing was said: the server does not know of this context
            self._connection.forget(self)
        elif not self._audio.closed:
            await self._connection.send({"context_id": self.name, "close_context": True})

    async def audio(self) -> AsyncIterator[SpokenAudio]:
        """The reply's sound, until it is complete or cancelled. Raises StageError where it fails.

        A piece carries the words that end in it; none if the server sends no alignment.
        """
        async for piece in self._audio:
            self._update_room()
            yield piece
        self._check()

    async def cancel(self) -> None:
        """Stop now: what is queued is dropped, and nothing of this context arrives any more. Never fails."""
        await self.end()
        await self._audio.discard()
        if self._connection.forget(self) and self.first_phrase_at is not None:
            await self._connection.drop(self.name)

    async def receive(self, message: ServerMessage) -> None:
        """Take a message of the server; for the connection."""
        pcm = message.audio or b""
        words = self._words.push(message.alignment, self._samples) if message.alignment else ()
        if message.final:
            words += self._words.finish()
        if pcm or words:
            await self._queue(SpokenAudio(pcm, self._rate_hz, words))
        if message.final:
            await self.end()

    async def end(self, failure: str | None = None) -> None:
        """No audio follows; for the connection. With a failure, that is what ``say`` and ``audio`` raise."""
        if not self._audio.closed:
            self._failure = failure
        await self._audio.close()
        self._has_room.set()

    async def _send_phrases(self, phrases: list[str]) -> None:
        for phrase in phrases:
            settings = self._settings() if self.first_phrase_at is None else {}
            self.first_phrase_at = self.first_phrase_at or asyncio.get_running_loop().time()
            await self._has_room.wait()
            self._check()
            if self._audio.closed:
                return
            text = " ".join(phrase.split()) + " "  # the protocol's pieces of text end with a space
            await self._connection.send({"text": text, "context_id": self.name, "flush": True, **settings})
        self._check()

    def _settings(self) -> dict[str, Any]:
        """What the first message of a context says of the voice."""
        return {} if self._speed == 1 else {"voice_settings": {"speed": self._speed}}

    async def _queue(self, piece: SpokenAudio) -> None:
        if self.first_audio_at is None:
            self.first_audio_at = asyncio.get_running_loop().time()
        if self._audio.depth + piece.duration_ms > MAX_AUDIO_MS:
            await self._connection.fail(self, f"{MAX_AUDIO_MS / 1000:.0f} s of audio wait to be taken")
            return
        self._samples += len(piece.pcm) // 2
        with suppress(ChannelClosed):  # cancelled just now
            await self._audio.send(piece)
        self._update_room()

    def _update_room(self) -> None:
        if self._audio.depth < ENOUGH_AUDIO_MS or self._audio.closed:
            self._has_room.set()
        else:
            self._has_room.clear()

    def _check(self) -> None:
        if self._failure is not None:
            raise StageError("speech", self._failure)
