"""A simulated room: what its loudspeaker says comes back into its microphone, and a person speaks in it."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from audio.devices import Direction
from audio.echo import Moment
from audio.format import ms_to_samples
from audio.playout import Playout
from audio.resample import resample
from audio.ring import SampleRing
from audio.soundcard import MICROPHONE_S, Counters
from clients.realtime import RATE_HZ
from pipeline.timing import loop_clock

BLOCK_MS = 10
DEVICE_HZ = 48_000
# What the devices say of their own delays is right; the way through the air comes on top.
LATENCY_MS = 40
REFLECTIONS, REVERBERATION_MS = 40, 250.0
NOISE_LEVEL = 0.0007  # a quiet room, -63 dB full scale


class Room:
    """A sound card's double, run by the loop's clock: the echo is ``gain_db`` louder than what is played.

    It comes ``delay_ms`` after it was said to be in the air, with reflections that die away.
    """

    def __init__(self, gain_db: float, delay_ms: float, *, seed: int = 0) -> None:
        self.microphone_hz = self.speaker_hz = DEVICE_HZ
        self.microphone = SampleRing(round(MICROPHONE_S * DEVICE_HZ))
        self.reference = SampleRing(round(MICROPHONE_S * DEVICE_HZ))
        self.playout = Playout(RATE_HZ, DEVICE_HZ)
        self.counters = Counters()
        self.captured = self.rendered = Moment(0, 0.0)
        self._random = np.random.default_rng(seed)
        delay = ms_to_samples(delay_ms + LATENCY_MS, DEVICE_HZ)
        self._paths = self._reflect(delay, 10 ** (gain_db / 20))
        self._block = ms_to_samples(BLOCK_MS, DEVICE_HZ)
        self._air = np.zeros(max(at for at, _ in self._paths) + self._block, np.float32)
        self._speech = np.zeros(0, np.float32)
        self._blocks = 0

    def speak(self, samples: NDArray[np.float32], rate_hz: int) -> None:
        """Somebody in the room says this, now."""
        self._speech = np.concatenate((self._speech, resample(samples, rate_hz, DEVICE_HZ)))

    async def run(self) -> None:
        """Let time pass, until cancelled."""
        began_at = loop_clock()
        while True:
            await asyncio.sleep(max(began_at + self._blocks * BLOCK_MS / 1000 - loop_clock(), 0.0))
            self.step()

    def step(self) -> None:
        """Ten milliseconds pass."""
        now_s = self._blocks * BLOCK_MS / 1000
        self._blocks += 1
        said = np.zeros(self._block, np.float32)
        self.playout.fill(said)
        self.rendered = Moment(self.reference.written, now_s + LATENCY_MS / 1000)
        self.reference.write(said)
        self.captured = Moment(self.microphone.written, now_s)
        self.counters.overruns += len(said) > self.microphone.write(self._hear(said))

    def name(self, direction: Direction) -> str:
        """It has no names."""
        return f"simulated {direction}"

    def gone(self) -> Direction | None:
        """It never vanishes."""
        return None

    def close(self) -> None:
        """Nothing is held open."""

    def _hear(self, said: NDArray[np.float32]) -> NDArray[np.float32]:
        self._air = np.concatenate((self._air[self._block :], said))
        heard = self._random.standard_normal(self._block, dtype=np.float32) * np.float32(NOISE_LEVEL)
        for delay, gain in self._paths:
            end = len(self._air) - delay
            heard += gain * self._air[end - self._block : end]
        speech, self._speech = self._speech[: self._block], self._speech[self._block :]
        heard[: len(speech)] += speech
        np.clip(heard, -1.0, 1.0, out=heard)
        return heard

    def _reflect(self, delay: int, gain: float) -> list[tuple[int, np.float32]]:
        """The straight way and the reflections, each a delay in samples and a gain; their energy adds up."""
        later_ms = np.sort(self._random.uniform(1.0, REVERBERATION_MS, REFLECTIONS))
        fading = 10 ** (-2.0 * later_ms / REVERBERATION_MS)
        gains = np.concatenate(([1.0], 0.35 * self._random.standard_normal(REFLECTIONS) * fading))
        gains *= gain / np.sqrt(np.sum(gains**2))
        delays = [delay, *(delay + ms_to_samples(ms, DEVICE_HZ) for ms in later_ms)]
        return [(at, np.float32(each)) for at, each in zip(delays, gains, strict=True)]
