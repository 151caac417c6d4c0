"""The sounds in which nobody speaks: as long as asked for, the same every time, and never too loud."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clients.sounds import GENERATORS, PIECE_S, Sound, without_speech

ROUND_S = PIECE_S * len(GENERATORS)


def test_they_are_as_long_as_asked_for() -> None:
    assert sum(len(sound.samples) for sound in without_speech(30.0)) == 30 * 16_000


def test_they_are_the_same_every_time() -> None:
    first, again = (list(without_speech(ROUND_S)) for _ in range(2))
    assert all(np.array_equal(one.samples, other.samples) for one, other in zip(first, again, strict=True))


def test_a_second_round_sounds_different() -> None:
    sounds = list(without_speech(2 * ROUND_S))
    first, second = sounds[: len(GENERATORS)], sounds[len(GENERATORS) :]
    same = [
        one.name for one, other in zip(first, second, strict=True) if np.array_equal(one.samples, other.samples)
    ]
    assert same == ["digital silence"]


def test_recordings_begin_every_round() -> None:
    rain = Sound("rain", np.ones(16_000, np.float32))
    names = [sound.name for sound in without_speech(2 * ROUND_S, [rain])]
    assert names[: len(GENERATORS) + 2] == ["rain", *GENERATORS, "rain"]


@pytest.mark.parametrize("name", GENERATORS)
def test_every_sound_stays_within_full_scale_and_is_heard_throughout(name: str) -> None:
    sound = next(each for each in without_speech(ROUND_S) if each.name == name)
    quarters = [np.abs(quarter).max() for quarter in np.array_split(sound.samples, 4)]
    assert max(quarters) <= 1.0
    assert min(quarters) > 0 or name == "digital silence"


def test_noise_has_the_colour_of_its_name() -> None:
    def low_share(name: str) -> float:
        sound = next(each for each in itertools.islice(without_speech(ROUND_S), 99) if each.name == name)
        power = np.abs(np.fft.rfft(sound.samples)) ** 2
        return float(power[: len(power) // 8].sum() / power.sum())

    assert low_share("white noise") < 0.2 < low_share("pink noise") < 0.95 < low_share("brown noise")
