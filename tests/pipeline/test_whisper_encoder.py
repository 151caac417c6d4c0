"""The encoder in bfloat16, against the one that it replaces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from faster_whisper import WhisperModel

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends import whisper_ear
from pipeline.backends.bfloat16_tiles import has_tiles
from pipeline.backends.whisper_ear import WhisperEar, as_storage, own_encoder
from pipeline.backends.whisper_encoder import STEP_FRAMES, WhisperEncoder
from pipeline.backends.whisper_weights import ENCODER_FORM, encoding
from pipeline.ports import RATE_HZ
from pipeline.prepared import Prepared
from pipeline.store import Store

pytestmark = pytest.mark.models
tiles = pytest.mark.skipif(not has_tiles(), reason="this processor has no tiles for bfloat16 (AMX)")


@pytest.fixture(scope="module")
def sound(store: Store) -> np.ndarray:
    recording = read_recording(store.path("demo-recordings") / "two_cities.wav")
    return resample(recording.samples, recording.rate_hz, RATE_HZ)[: 3 * RATE_HZ]


@pytest.fixture(scope="module")
def whisper(store: Store) -> WhisperModel:
    """CTranslate2's model in float32."""
    return WhisperModel(str(store.path("whisper-base")), device="cpu", compute_type="float32", cpu_threads=1)


@tiles
def test_it_encodes_as_float32_does_up_to_rounding(store: Store, whisper: WhisperModel, sound: np.ndarray) -> None:
    features = whisper.feature_extractor(sound, padding=0)[:, : 8 * STEP_FRAMES]
    exact = np.array(whisper.encode(features))
    encoded = WhisperEncoder(store.path("whisper-base")).encode(features)
    assert encoded.shape == exact.shape == (1, 4 * STEP_FRAMES, 512)
    assert np.sqrt(np.mean((encoded - exact) ** 2)) < 0.05 * exact.std()


def test_without_tiles_ctranslate2_encodes(
    store: Store, whisper: WhisperModel, sound: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whisper_ear, "has_tiles", lambda: False)
    ear = WhisperEar(whisper, own_encoder(store.path("whisper-base")))
    encoded = ear.encode(sound)
    assert encoded.shape[1] % STEP_FRAMES == 0
    assert np.array_equal(np.array(as_storage(encoded)), encoded)


@tiles
def test_the_next_start_encodes_with_the_same_weights(store: Store, tmp_path: Path) -> None:
    folder, prepared = store.path("whisper-base"), Prepared(tmp_path)
    made, kept = encoding(folder, prepared), encoding(folder, prepared)
    assert prepared.find(folder, ENCODER_FORM) is not None
    assert made.bands == kept.bands
    assert np.array_equal(made.second_convolution.weight, kept.second_convolution.weight)
    assert np.array_equal(made.up.weight, kept.up.weight)
