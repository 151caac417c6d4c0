"""From sound to the encoder's output: at the sound's real length on a processor, in whole windows on a GPU."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.audio import pad_or_trim

from pipeline.backends import mapped
from pipeline.backends.bfloat16_tiles import has_tiles
from pipeline.backends.ctranslate2_weights import UnknownWeightsError
from pipeline.backends.kernels import Floats
from pipeline.backends.log_mel import LogMel
from pipeline.backends.whisper_encoder import STEP_FRAMES, WhisperEncoder
from pipeline.backends.whisper_weights import EncoderWeights
from pipeline.ports import RATE_HZ, Samples
from pipeline.prepared import Form, Prepared

# Of features, 10 ms each, of which the encoder makes one of two: nearly 30 s, in whole steps.
WINDOW_FRAMES = 3000 // (2 * STEP_FRAMES) * 2 * STEP_FRAMES
FRAME_SAMPLES = RATE_HZ // 50  # of sound, in one frame of the encoder's output
SLACK_SAMPLES = RATE_HZ // 2  # of silence after the sound, at least
# Log-mel value of digital silence in a sound whose speech is of ordinary loudness.
SILENCE_LEVEL = -0.75

log = logging.getLogger(__name__)


class _Silence(NamedTuple):
    """The encoder's output of a window without a sound, ``[1, frames, width]``."""

    encoded: Floats


class WhisperEar:
    """One model's encoder: CTranslate2's, or on a processor with tiles for bfloat16 its own."""

    def __init__(
        self,
        whisper: WhisperModel,
        folder: Path,
        own: WhisperEncoder | None,
        *,
        whole_windows: bool = False,
        prepared: Prepared | None = None,
    ) -> None:
        """``own``: what encodes instead of CTranslate2."""
        self._whisper: Any = whisper
        self._own = own
        self._features = LogMel(whisper.feature_extractor.mel_filters)
        self._whole_windows = whole_windows
        # A window of silence, encoded; None where every window is a whole one.
        self.silence: Floats | None = None
        if not whole_windows:
            self._features(np.zeros(RATE_HZ, np.float32))  # compiled now, and not for the first words
            form = Form(f"silence-{'own' if own else self._whisper.model.compute_type}", 2)
            self.silence = mapped.kept(_Silence, folder, form, prepared, self._new_silence).encoded

    def encode(self, sound: Samples) -> Any:
        """The encoder's output ``[1, frames of 20 ms, width]``: an array, or on a GPU what lies there."""
        if self._whole_windows:
            return self._whisper.encode(pad_or_trim(self._whisper.feature_extractor(sound)))
        slack = SLACK_SAMPLES + -(len(sound) + SLACK_SAMPLES) % (STEP_FRAMES * FRAME_SAMPLES)
        return self._through(self._features(np.pad(sound, (0, slack))))

    def in_silence(self, encoded: Any) -> Any:
        """The same output with a window's silence after it: what the decoder needs to find the end, at no cost
        of encoding. Twice the decoding, so only where the short way is in doubt."""
        if self.silence is None:
            return encoded
        return np.concatenate((encoded, self.silence[:, encoded.shape[1] :]), axis=1)

    def _through(self, features: Floats) -> Floats:
        if self._own is not None:
            return self._own.encode(features)
        return np.array(self._whisper.encode(features), np.float32)

    def _new_silence(self) -> _Silence:
        return _Silence(self._through(self._level(WINDOW_FRAMES)))

    def _level(self, frames: int) -> Floats:
        bands = self._whisper.feature_extractor.mel_filters.shape[0]
        return np.full((bands, frames), SILENCE_LEVEL, np.float32)


def own_encoder(folder: Path) -> WhisperEncoder | None:
    """The encoder in bfloat16, where the processor has tiles for it and the weights are known."""
    if not has_tiles():
        return None
    try:
        own = WhisperEncoder(EncoderWeights(folder))
    except UnknownWeightsError as error:
        log.warning("sound is encoded by CTranslate2: %s", error)
        return None
    own.warm_up()
    return own


def as_storage(encoded: Any) -> ctranslate2.StorageView:
    """The encoder's output as CTranslate2 takes it."""
    return ctranslate2.StorageView.from_array(encoded) if isinstance(encoded, np.ndarray) else encoded
