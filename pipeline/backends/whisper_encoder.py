"""Whisper's encoder in bfloat16, for processors that multiply it in hardware.

Encoding is most of what hearing costs, and nearly all of it is products of many rows. Where a processor has tiles
of bfloat16 (AMX) they take half the time of CTranslate2's int8, and what comes out is closer to float32's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.backends.bfloat16_tiles import BLOCK
from pipeline.backends.kernels import Floats
from pipeline.backends.whisper_encoder_kernels import encode
from pipeline.backends.whisper_weights import encoding
from pipeline.prepared import Prepared

STEP_FRAMES = BLOCK  # what is encoded is as many frames long, or a multiple of it


class WhisperEncoder:
    """One model's encoder; may be used from several threads, and on processors with tiles for bfloat16 only."""

    def __init__(self, folder: Path, prepared: Prepared | None = None) -> None:
        """Load a CTranslate2 model. Raises UnknownWeightsError where it is of another kind.

        ``prepared``: where the packed weights are kept for the next start.
        """
        self._weights = encoding(folder, prepared)

    def warm_up(self) -> None:
        """Have the loops compiled, or fetched from where an earlier process left them."""
        self.encode(np.zeros((self._weights.bands, 2 * STEP_FRAMES), np.float32))

    def encode(self, features: Floats) -> Floats:
        """``features [bands, 2 frames]`` of 10 ms as ``[1, frames, width]``."""
        encoded: Floats = encode(np.ascontiguousarray(features.T), self._weights)
        return encoded[None]
