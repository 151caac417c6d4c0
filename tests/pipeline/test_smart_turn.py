"""Smart Turn: what it is fed, and that it hears the difference between done and not done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends.smart_turn import HEARD_SAMPLES, SmartTurn, normalised
from pipeline.ports import RATE_HZ, InputError
from pipeline.store import Store


@pytest.fixture(scope="module")
def smart_turn(store: Store) -> Iterator[SmartTurn]:
    loaded = SmartTurn(store.path("smart-turn-v3.2") / "smart-turn-v3.2-cpu.onnx")
    yield loaded
    loaded.close()


def test_short_sound_is_put_at_the_end_of_eight_seconds() -> None:
    fed = normalised(np.ones(RATE_HZ, np.float32))
    assert len(fed) == HEARD_SAMPLES
    assert fed[0] < 0 < fed[-1]


def test_long_sound_keeps_its_end() -> None:
    sound = np.concatenate((np.full(HEARD_SAMPLES, 5.0), np.linspace(-1, 1, HEARD_SAMPLES))).astype(np.float32)
    np.testing.assert_allclose(normalised(sound), normalised(sound[HEARD_SAMPLES:]))


@pytest.mark.models
async def test_a_sentence_broken_off_is_less_done_than_the_whole(smart_turn: SmartTurn, store: Store) -> None:
    recording = read_recording(store.path("demo-recordings") / "two_cities.wav")
    sound = resample(recording.samples, recording.rate_hz, RATE_HZ)
    whole, broken_off = sound[: int(4.75 * RATE_HZ)], sound[: int(2.2 * RATE_HZ)]
    assert await smart_turn.judge(whole) > await smart_turn.judge(broken_off)


@pytest.mark.models
async def test_silence_and_no_sound_at_all_are_judged_too(smart_turn: SmartTurn) -> None:
    for samples in (0, 100, 10 * RATE_HZ):
        assert 0 <= await smart_turn.judge(np.zeros(samples, np.float32)) <= 1


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.onnx"):
        SmartTurn(tmp_path / "nowhere.onnx")
