"""Playback: a reply's audio leaves at the pace it is heard, so that it can be paused, resumed and cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np

from pipeline.config import PlaybackConfig
from pipeline.frames import SpokenAudio, WordTime
from pipeline.timing import Clock

Send = Callable[[bytes, int], Awaitable[None]]
BYTES_PER_SAMPLE = 2


class Playback:
    """Sends one reply in slices by absolute deadlines, never more than ``lead_ms`` ahead of what is heard.

    Pausing fades out over one slice without counting it as played; resuming fades in from the sample where the
    fade began, so nothing is lost and nothing clicks. ``heard_samples`` is the client's position at the latest:
    what was sent and has had the time to sound.
    """

    def __init__(self, config: PlaybackConfig, clock: Clock, send: Send, rate_hz: int) -> None:
        self._config = config
        self._clock = clock
        self._send = send
        self._rate_hz = rate_hz
        self._slice_bytes = rate_hz * config.slice_ms // 1000 * BYTES_PER_SAMPLE
        self._buffer = bytearray()
        self._sent = 0
        self._began = 0.0  # when the first sample sounds, had there been no pause
        self._running = asyncio.Event()
        self._running.set()
        self._faded = False
        self._finished = False
        self._stopped_at: int | None = None
        self.words: list[WordTime] = []
        self.gaps = 0

    async def play(self, pieces: AsyncIterator[SpokenAudio]) -> None:
        """Play the pieces to their end; returns once the last sample has been heard."""
        async for piece in pieces:
            self._buffer += piece.pcm
            self.words.extend(piece.words)
            while len(self._buffer) >= self._slice_bytes:
                await self._send_slice(self._slice_bytes)
        while self._buffer:
            await self._send_slice(min(len(self._buffer), self._slice_bytes))
        self._finished = True
        await self._until(self._began + self._sent / self._rate_hz)

    def pause(self) -> None:
        """Fade out now and hold."""
        self._running.clear()

    def resume(self) -> None:
        """Go on from the exact sample."""
        if not self._running.is_set():
            # The client has played all that it had: what comes next is heard as it is sent.
            self._began = max(self._began, self._clock() - self._sent / self._rate_hz)
            self._running.set()

    def stop(self) -> None:
        """No more of it will be heard than was heard by now."""
        self._stopped_at = self.heard_samples()

    def heard_samples(self) -> int:
        """How many samples of the reply can have been heard by now."""
        if self._stopped_at is not None or not self._sent:
            return self._stopped_at or 0
        return max(0, min(self._sent, int((self._clock() - self._began) * self._rate_hz)))

    def heard_text(self, text: str, limit_ms: float | None = None) -> str:
        """What of the reply's ``text`` was heard by now, and within the limit: the words heard to their end.

        A voice that does not say when its words are spoken is taken to speak evenly.
        """
        heard = self.heard_samples()
        if limit_ms is not None:
            heard = min(heard, int(limit_ms * self._rate_hz / 1000))
        if self._finished and heard == self._sent:
            return text
        if self.words:
            return " ".join(word.text for word in self.words if word.end <= heard)
        parts, made = text.split(), self._sent + self._waiting_samples
        return " ".join(parts[: len(parts) * heard // made]) if made else ""

    @property
    def _waiting_samples(self) -> int:
        return len(self._buffer) // BYTES_PER_SAMPLE

    async def _send_slice(self, size: int) -> None:
        await self._hold_while_paused(size)
        now = self._clock()
        if not self._sent or now > self._began + self._sent / self._rate_hz:
            # The first slice, or the client has run dry: the reply's clock starts again from here.
            self.gaps += bool(self._sent)
            self._began = now - self._sent / self._rate_hz
        pcm = bytes(self._buffer[:size])
        if self._faded:
            pcm, self._faded = _ramp(pcm, 0.0, 1.0), False
        await self._send(pcm, self._rate_hz)
        del self._buffer[:size]
        self._sent += size // BYTES_PER_SAMPLE
        await self._until(self._began + self._sent / self._rate_hz - self._config.lead_ms / 1000)

    async def _hold_while_paused(self, size: int) -> None:
        while not self._running.is_set():
            if self._sent and not self._faded:
                fade = min(size, self._rate_hz * self._config.fade_ms // 1000 * BYTES_PER_SAMPLE)
                self._faded = True
                await self._send(_ramp(bytes(self._buffer[:fade]), 1.0, 0.0), self._rate_hz)
            await self._running.wait()

    async def _until(self, deadline: float) -> None:
        await asyncio.sleep(max(0.0, deadline - self._clock()))


def _ramp(pcm: bytes, start: float, end: float) -> bytes:
    samples = np.frombuffer(pcm, "<i2")
    return (samples * np.linspace(start, end, len(samples))).astype("<i2").tobytes()
