"""The words in a recording that comes whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pipeline.ports import RATE_HZ, Hypothesis, Samples
from pipeline.recorded import words_in


class LoudnessActivity:
    """Speech is what is not silent."""

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        return [min(1.0, float(np.abs(frame).max())) for frame in frames]

    def reset(self) -> None: ...


class LengthRecogniser:
    """Hears how many seconds it was given, and keeps what it was told before them."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def recognise(self, sound: Samples, *, prompt: str = "", **_known: Any) -> Hypothesis:
        self.prompts.append(prompt)
        return Hypothesis(f"{len(sound) / RATE_HZ:.0f}s")


def loud(seconds: float) -> Samples:
    return np.ones(round(seconds * RATE_HZ), np.float32)


def silent(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE_HZ), np.float32)


@pytest.mark.parametrize("sound", [silent(3.0), silent(0.0)])
async def test_where_nobody_speaks_the_recogniser_is_not_asked(sound: Samples) -> None:
    recogniser = LengthRecogniser()
    assert await words_in(sound, LoudnessActivity(), recogniser) == ""
    assert recogniser.prompts == []


async def test_a_long_recording_is_cut_in_its_pause_and_heard_in_order() -> None:
    recogniser = LengthRecogniser()
    sound = np.concatenate((loud(18), silent(0.5), loud(12)))
    assert await words_in(sound, LoudnessActivity(), recogniser) == "18s 12s"
    assert recogniser.prompts == ["", "18s"]


async def test_no_stretch_is_longer_than_a_recogniser_hears_although_there_is_no_pause() -> None:
    heard = await words_in(loud(70), LoudnessActivity(), LengthRecogniser())
    seconds = [int(word.removesuffix("s")) for word in heard.split()]
    assert max(seconds) <= 25
    assert sum(seconds) == pytest.approx(70, abs=len(seconds))
