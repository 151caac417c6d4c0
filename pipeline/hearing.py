"""Hearing: sound comes in, is cut into frames, listened to, kept for a while and handed to the transcriber."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

import numpy as np

from audio.format import AudioChunk, Samples
from audio.framer import Framer, PreRoll
from pipeline.channel import Backlog, Channel, Overflow
from pipeline.config import ListenConfig
from pipeline.frames import VoiceEvent
from pipeline.listen import Listener
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, StageError, VoiceActivity
from pipeline.timing import Clock

log = logging.getLogger(__name__)

KEPT_S = 30
# A detector's state drifts while nothing is said: after minutes of noise it notices speech half a second late.
# After so long a quiet it listens afresh.
AFRESH_S = 2.0
# Frames that wait are judged together; more of them in one job would keep other conversations waiting.
TOGETHER = 8
TOGETHER_MS = TOGETHER * VAD_FRAME_SAMPLES * 1000 / RATE_HZ


class Hearing:
    """One session's ear: the frames in order, with what the listener made of them."""

    def __init__(self, config: ListenConfig, activity: VoiceActivity, clock: Clock) -> None:
        self.listener = Listener(config)
        self.kept = PreRoll(KEPT_S * RATE_HZ, RATE_HZ)
        self._inbound: Channel[AudioChunk] = Channel(
            "inbound audio", config.buffered_ms, Overflow.DROP_OLDEST, size=lambda chunk: chunk.duration_ms
        )
        self._activity = activity
        self._clock = clock
        self._framer = Framer(VAD_FRAME_SAMPLES)
        self._gap_s = config.gap_ms / 1000
        self._last_arrival = clock()
        self._quiet_samples = 0
        self._received = 0
        self._taken = 0
        self._arrivals: deque[tuple[int, float]] = deque(maxlen=4096)
        self._caught_up = asyncio.Event()
        self._caught_up.set()
        self._frame_heard = asyncio.Event()

    @property
    def position(self) -> int:
        """Samples listened to since the session began."""
        return self.kept.end

    @property
    def backlog(self) -> Backlog:
        """Sound that was not listened to yet, and pieces that never were because the machine did not keep up."""
        return Backlog("inbound_audio", self._inbound.depth, self._inbound.stats.dropped)

    async def push(self, samples: Samples) -> None:
        """More sound at 16 kHz. Never waits long: when the limit is reached the oldest sound is dropped."""
        chunk = AudioChunk(samples, RATE_HZ, self._received)
        self._received = chunk.end
        self._last_arrival = self._clock()
        self._arrivals.append((chunk.end, self._last_arrival))
        self._caught_up.clear()
        await self._inbound.send(chunk)

    async def push_all(self, samples: Samples) -> None:
        """More sound, none of which may be lost however fast it comes: waits until what came before is heard."""
        await self._caught_up.wait()
        await self.push(samples)

    async def hear_out(self) -> None:
        """Returns once every sample that came was listened to; the last frame is filled up with silence."""
        missing = -self._received % VAD_FRAME_SAMPLES
        if missing:
            await self.push(np.zeros(missing, np.float32))
        await self._caught_up.wait()

    async def close(self) -> None:
        """No more sound will come."""
        await self._inbound.close()

    async def frames(self) -> AsyncIterator[tuple[Samples, list[VoiceEvent]]]:
        """Frame after frame, each with the voice events that it brought; until closed."""
        async for chunks in self._inbound.batches(TOGETHER_MS):
            frames = self._framer.push(np.concatenate([self._without_gap(chunk) for chunk in chunks]))
            async for frame, probability in self._judged(frames):
                self.kept.push(frame)
                events = self.listener.push(probability)
                self._listen_afresh(len(frame))
                self._frame_heard.set()
                yield frame, events
            if self._received - self.position < VAD_FRAME_SAMPLES:
                self._caught_up.set()

    async def caught_up(self) -> None:
        """Returns once all the sound that has come was listened to."""
        await self._caught_up.wait()

    async def silence(self) -> None:
        """Returns once all the sound that has come was listened to and is no speech, or no sound comes any more.

        Where it is speech it returns a frame later, for the listener to tell of it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._gap_s):
                await self.caught_up()
                while self.listener.onset_pending:
                    await self._next_frame()
                if self.listener.speaking:
                    await self._next_frame()

    def watch(self) -> list[VoiceEvent]:
        """Call now and then: when no sound has come for a while in mid-speech, that is a pause."""
        starved = self._clock() - self._last_arrival > self._gap_s
        return self.listener.starve() if starved else []

    def arrived_at(self, position: int) -> float:
        """When the sample at this position came in; the oldest known time if that was long ago."""
        at = self._clock()
        for end, arrived in reversed(self._arrivals):
            if end < position:
                break
            at = arrived
        return at

    async def _next_frame(self) -> None:
        self._frame_heard.clear()
        await self._frame_heard.wait()

    async def _judged(self, frames: list[Samples]) -> AsyncIterator[tuple[Samples, float]]:
        for start in range(0, len(frames), TOGETHER):
            some = frames[start : start + TOGETHER]
            for frame, probability in zip(some, await self._probabilities(some), strict=True):
                yield frame, probability

    async def _probabilities(self, frames: list[Samples]) -> list[float]:
        try:
            return await self._activity.push(frames)
        except StageError as error:
            log.error("voice activity failed, %d frames count as silence: %s", len(frames), error)
            self._activity.reset()
            return [0.0] * len(frames)

    def _listen_afresh(self, samples: int) -> None:
        self._quiet_samples = self._quiet_samples + samples if self.listener.quiet else 0
        if self._quiet_samples >= AFRESH_S * RATE_HZ:
            self._activity.reset()
            self._quiet_samples = 0

    def _without_gap(self, chunk: AudioChunk) -> Samples:
        """The chunk, with silence in the place of sound that was dropped before it: positions stay true."""
        lost = chunk.start - self._taken
        self._taken = chunk.end
        return np.concatenate((np.zeros(lost, np.float32), chunk.samples)) if lost else chunk.samples
