"""Hearing: the ear stays as sharp after a long quiet as it was at the beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends.silero import SileroModel
from pipeline.config import ListenConfig
from pipeline.frames import SpeechStarted
from pipeline.hearing import AFRESH_S, TOGETHER, Hearing
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, Samples, VoiceActivity
from pipeline.store import Store

FRAMES_A_SECOND = RATE_HZ / VAD_FRAME_SAMPLES
DICE = np.random.default_rng(1)


class Ear:
    """Takes loud frames for speech, and notes what it judges and how often it was told to listen afresh."""

    def __init__(self) -> None:
        self.resets = 0
        self.judged: list[int] = []  # frames, call by call

    def reset(self) -> None:
        self.resets += 1

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        self.judged.append(len(frames))
        return [float(np.abs(frame).max() > 0.1) for frame in frames]


async def hear(ear: VoiceActivity, sound: Samples) -> list[SpeechStarted]:
    """Where speech was noticed in the sound, which comes in as fast as it is listened to."""
    hearing = Hearing(ListenConfig(), ear, lambda: 0.0)

    async def feed() -> None:
        for piece in np.split(sound, range(RATE_HZ, len(sound), RATE_HZ)):
            await hearing.push(piece)
            await hearing.caught_up()
        await hearing.close()

    feeding = asyncio.create_task(feed())
    events = [event async for _, brought in hearing.frames() for event in brought]
    await feeding
    return [event for event in events if isinstance(event, SpeechStarted)]


def seconds(of: float, level: float = 0.0) -> Samples:
    return np.full(round(of * FRAMES_A_SECOND) * VAD_FRAME_SAMPLES, level, np.float32)


async def test_a_long_quiet_makes_the_ear_listen_afresh_again_and_again() -> None:
    ear = Ear()
    await hear(ear, seconds(AFRESH_S * 5 + 0.1))
    assert ear.resets == 5


async def test_the_ear_never_listens_afresh_while_somebody_speaks() -> None:
    ear = Ear()
    await hear(ear, seconds(AFRESH_S * 5, level=0.5))
    assert ear.resets == 0


async def test_a_short_pause_is_no_quiet() -> None:
    ear = Ear()
    await hear(ear, np.concatenate([seconds(1, level=0.5), seconds(AFRESH_S - 0.2)] * 3))
    assert ear.resets == 0


async def test_sound_that_waits_is_judged_together() -> None:
    ear = Ear()
    hearing = Hearing(ListenConfig(), ear, lambda: 0.0)
    for piece in np.split(seconds(0.96, level=0.5), 48):
        await hearing.push(piece)
    await hearing.close()
    assert len([frame async for frame, _ in hearing.frames()]) == sum(ear.judged) == 30
    assert max(ear.judged) <= TOGETHER
    assert len(ear.judged) == 4


@pytest.fixture(scope="module")
def speech(store: Store) -> Samples:
    recording = read_recording(store.path("demo-recordings") / "beckett.wav")
    return resample(recording.samples, recording.rate_hz, RATE_HZ)[: 3 * RATE_HZ]


@pytest.mark.models
@pytest.mark.parametrize("level", [0.0, 0.003, 0.03], ids=["silence", "hiss", "noise"])
async def test_speech_is_noticed_as_soon_after_minutes_without_any_as_at_the_beginning(
    vad: SileroModel, speech: Samples, level: float
) -> None:
    before = DICE.normal(0, 1, 150 * VAD_FRAME_SAMPLES * 30).astype(np.float32) * level
    [fresh] = await hear(vad.open(), np.concatenate([before[: 10 * VAD_FRAME_SAMPLES], speech]))
    [late] = await hear(vad.open(), np.concatenate([before, speech]))
    delay = (late.start - len(before)) - (fresh.start - 10 * VAD_FRAME_SAMPLES)
    assert delay <= 2 * VAD_FRAME_SAMPLES
