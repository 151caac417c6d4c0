"""Whisper's features: how loud a sound is in each band of the mel scale, every 10 ms, as a logarithm.

The same numbers as the library's, whose matrix product takes threads of its own and on a busy processor waits for
them longer than all of this takes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.backends.compiler import FAST, njit
from pipeline.backends.kernels import Floats

HOP_SAMPLES = 160
QUIETEST, RANGE = 1e-10, 8.0  # of energies, and of their decimal logarithms below the largest


class LogMel:
    """Features by these filters, ``[bands, frequencies]``."""

    def __init__(self, filters: Floats) -> None:
        self._filters = np.ascontiguousarray(filters, np.float32)
        heard = filters > 0
        self._first, self._end = heard.argmax(1), heard.shape[1] - heard[:, ::-1].argmax(1)
        self._width = 2 * (filters.shape[1] - 1)
        self._window = np.hanning(self._width + 1)[:-1].astype(np.float32)

    def __call__(self, sound: Floats) -> Floats:
        """``[bands, frames]`` of a sound of 200 ms or more."""
        padded = np.pad(sound, self._width // 2, mode="reflect")
        pieces = np.lib.stride_tricks.sliding_window_view(padded, self._width)[:-1:HOP_SAMPLES]
        spectrum = np.fft.rfft(pieces * self._window).astype(np.complex64, copy=False)
        levels = np.log10(_energies(spectrum, self._filters, self._first, self._end))
        features: Floats = np.maximum(levels, levels.max() - np.float32(RANGE)) / np.float32(4) + np.float32(1)
        return features


@njit(nogil=True, cache=True, fastmath=FAST)
def _energies(
    spectrum: NDArray[np.complex64], filters: Floats, first: NDArray[np.int64], end: NDArray[np.int64]
) -> Floats:
    """Those of every band, ``[bands, frames]``."""
    energies = np.empty((len(filters), len(spectrum)), np.float32)
    power = np.empty(spectrum.shape[1], np.float32)
    for frame in range(len(spectrum)):
        heard = spectrum[frame]
        for frequency in range(len(power)):
            power[frequency] = heard[frequency].real ** 2 + heard[frequency].imag ** 2
        for band in range(len(filters)):
            total = np.float32(0)
            for frequency in range(first[band], end[band]):
                total += filters[band, frequency] * power[frequency]
            energies[band, frame] = max(total, np.float32(QUIETEST))
    return energies
