"""Whisper's features, against the library's."""

from __future__ import annotations

import numpy as np
import pytest
from faster_whisper.feature_extractor import FeatureExtractor

from pipeline.backends.log_mel import LogMel
from pipeline.ports import RATE_HZ


@pytest.mark.parametrize("bands", [80, 128])
@pytest.mark.parametrize("seconds", [0.2, 1.28, 4.5])
def test_features_are_those_of_the_library(bands: int, seconds: float) -> None:
    library = FeatureExtractor(feature_size=bands)
    sound = np.random.default_rng(0).normal(0, 0.05, int(seconds * RATE_HZ)).astype(np.float32)
    sound[len(sound) // 2 :] = 0
    features, expected = LogMel(library.mel_filters)(sound), library(sound, padding=0)
    assert features.shape == expected.shape
    assert np.abs(features - expected).max() < 1e-5
