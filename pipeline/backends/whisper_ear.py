"""From sound to the encoder's output: at the sound's real length on a processor, in whole windows on a GPU."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.audio import pad_or_trim

from pipeline.backends.bfloat16_tiles import has_tiles
from pipeline.backends.ctranslate2_weights import UnknownWeightsError
from pipeline.backends.kernels import Floats
from pipeline.backends.log_mel import LogMel
from pipeline.backends.whisper_encoder import STEP_FRAMES, WhisperEncoder
from pipeline.ports import RATE_HZ, Samples
from pipeline.prepared import Prepared

FRAME_SAMPLES = RATE_HZ // 50  # of sound, in one frame of the encoder's output
SLACK_SAMPLES = RATE_HZ // 2  # of silence after the sound, at least

log = logging.getLogger(__name__)


class WhisperEar:
    """One model's encoder: CTranslate2's, or on a processor with tiles for bfloat16 its own."""

    def __init__(self, whisper: WhisperModel, own: WhisperEncoder | None, *, whole_windows: bool = False) -> None:
        """``own``: what encodes instead of CTranslate2."""
        self._whisper: Any = whisper
        self._own = own
        self._features = LogMel(whisper.feature_extractor.mel_filters)
        self._whole_windows = whole_windows
        if not whole_windows:
            self._features(np.zeros(RATE_HZ, np.float32))  # compiled now, and not for the first words

    def encode(self, sound: Samples) -> Any:
        """The encoder's output ``[1, frames of 20 ms, width]``: an array, or on a GPU what lies there."""
        if self._whole_windows:
            return self._whisper.encode(pad_or_trim(self._whisper.feature_extractor(sound)))
        slack = SLACK_SAMPLES + -(len(sound) + SLACK_SAMPLES) % (STEP_FRAMES * FRAME_SAMPLES)
        return self._through(self._features(np.pad(sound, (0, slack))))

    def _through(self, features: Floats) -> Floats:
        if self._own is not None:
            return self._own.encode(features)
        return np.array(self._whisper.encode(features), np.float32)


def own_encoder(folder: Path, prepared: Prepared | None = None) -> WhisperEncoder | None:
    """The encoder in bfloat16, where the processor has tiles for it and the weights are known."""
    if not has_tiles():
        return None
    try:
        own = WhisperEncoder(folder, prepared)
    except UnknownWeightsError as error:
        log.warning("sound is encoded by CTranslate2: %s", error)
        return None
    own.warm_up()
    return own


def as_storage(encoded: Any) -> ctranslate2.StorageView:
    """The encoder's output as CTranslate2 takes it."""
    return ctranslate2.StorageView.from_array(encoded) if isinstance(encoded, np.ndarray) else encoded
