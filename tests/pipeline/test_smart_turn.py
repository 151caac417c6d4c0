"""Smart Turn: what it is fed, and that it hears the difference between done and not done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from faster_whisper.utils import get_assets_path

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends.bfloat16_tiles import has_tiles
from pipeline.backends.smart_turn import HEARD_SAMPLES, SmartTurn, normalised, onnx_model, own_model
from pipeline.backends.smart_turn_weights import smart_turn_weights
from pipeline.ports import RATE_HZ, InputError
from pipeline.prepared import Prepared
from pipeline.store import Store

with_tiles = pytest.mark.skipif(not has_tiles(), reason="the processor has no tiles of bfloat16")


@pytest.fixture(scope="module")
def weights(store: Store) -> Path:
    return store.path("smart-turn-v3.2") / "smart-turn-v3.2-cpu.onnx"


@pytest.fixture(scope="module")
def smart_turn(weights: Path) -> Iterator[SmartTurn]:
    loaded = SmartTurn(weights)
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


@with_tiles
@pytest.mark.models
@pytest.mark.parametrize("level", [0.1, 0.3, 1.0])
def test_in_compiled_loops_it_says_what_onnxruntime_says_but_for_rounding(weights: Path, level: float) -> None:
    features = (level * np.random.default_rng(0).standard_normal((80, 800))).astype(np.float32)
    own = own_model(weights, None)
    assert own is not None
    assert own(features) == pytest.approx(onnx_model(weights)(features), abs=0.05)


@with_tiles
@pytest.mark.models
def test_the_next_start_does_not_read_the_weights_again(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = Prepared(tmp_path)
    first = smart_turn_weights(weights, prepared)
    monkeypatch.setitem(sys.modules, "onnx", None)
    again = smart_turn_weights(weights, prepared)
    np.testing.assert_array_equal(again.encoder.qkv.weight, first.encoder.qkv.weight)


@with_tiles
def test_a_model_of_another_kind_is_left_to_onnxruntime(caplog: pytest.LogCaptureFixture) -> None:
    assert own_model(Path(get_assets_path()) / "silero_vad_v6.onnx", None) is None
    assert "left to onnxruntime" in caplog.text


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.onnx"):
        SmartTurn(tmp_path / "nowhere.onnx")
