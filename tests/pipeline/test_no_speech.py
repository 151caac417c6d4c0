"""Sound without speech, through the ear and the recogniser as in a conversation: not one word."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from audio.format import AudioChunk
from pipeline.backends.silero import SileroModel
from pipeline.backends.whisper import WhisperRecogniser
from pipeline.config import ListenConfig
from pipeline.frames import SpeechPaused
from pipeline.listen import Listener
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, Samples
from pipeline.transcribe import Transcriber

pytestmark = pytest.mark.models

SECONDS = 6
TIME = np.arange(SECONDS * RATE_HZ) / RATE_HZ
DICE = np.random.default_rng(3)


def white_noise() -> Samples:
    return DICE.normal(0, 0.05, len(TIME)).astype(np.float32)


def mains_hum() -> Samples:
    return (0.2 * np.sin(2 * np.pi * 50 * TIME) + 0.1 * np.sin(2 * np.pi * 150 * TIME)).astype(np.float32)


def beeps() -> Samples:
    return (0.3 * np.sin(2 * np.pi * 880 * TIME) * (TIME % 0.5 < 0.2)).astype(np.float32)


def clicks() -> Samples:
    return np.where(DICE.random(len(TIME)) < 2e-4, 0.9, 0.0).astype(np.float32)


def organ() -> Samples:
    """A chord a second, with overtones: music, as far as a melody goes."""
    notes = np.array([220.0, 247.0, 262.0, 294.0, 330.0, 349.0])[(TIME).astype(int) % 6]
    overtones = sum(np.sin(2 * np.pi * np.cumsum(notes) / RATE_HZ * part) / part for part in (1, 1.25, 1.5, 2, 3))
    return (0.1 * overtones).astype(np.float32)


async def words_in(sound: Samples, vad: SileroModel, recogniser: WhisperRecogniser) -> str:
    """The final transcripts at the pauses of what the listener takes for speech."""
    activity, listener, transcriber = vad.open(), Listener(ListenConfig()), Transcriber(recogniser)
    transcriber.begin(AudioChunk(sound[:0], RATE_HZ))
    texts = []
    for frame in sound[: len(sound) // VAD_FRAME_SAMPLES * VAD_FRAME_SAMPLES].reshape(-1, VAD_FRAME_SAMPLES):
        [probability] = await activity.push([frame])
        events = listener.push(probability)
        transcriber.push(frame, listener.voiced, listener.clear)
        for event in events:
            if isinstance(event, SpeechPaused):
                texts.append((await transcriber.finish(event.end)).text)
    return " ".join(texts)


@pytest.mark.parametrize("noise", [white_noise, mains_hum, beeps, clicks, organ])
async def test_noise_is_not_a_word(
    noise: Callable[[], Samples], vad: SileroModel, recogniser: WhisperRecogniser
) -> None:
    assert await words_in(noise(), vad, recogniser) == ""
