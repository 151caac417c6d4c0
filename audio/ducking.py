"""Ducking: the loudspeaker steps back at the first sign that somebody speaks over it. Pure.

While both are heard, a canceller suppresses the nearer voice along with the echo, and the louder the echo the
longer. A loudspeaker that goes quieter lets the voice through before anybody is sure that it is one.
"""

from __future__ import annotations

import numpy as np

from audio.format import Samples

DUCKED = 10 ** (-12 / 20)  # of a reply's level, while somebody may be speaking over it
# What WebRtcCanceller leaves of an echo is quieter than this in 99 of 100 blocks; a suppressed voice is not.
LOUD_DB = -55.0
ABOVE_NOISE_DB = 12.0  # a room's own noise is no voice
NOISE_RISES_DB_A_S = 6.0  # how soon noise that has become louder is known for noise
HOLD_S = 0.4


class Suspicion:
    """Whether somebody may be speaking: what the canceller has left is louder than an echo and than the noise.

    It is raised by a single block, and stays for ``HOLD_S``: a reply that is quieter for a moment disturbs nobody.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._noise_db = LOUD_DB - ABOVE_NOISE_DB
        self._left_s = 0.0

    @property
    def raised(self) -> bool:
        """Whether it may be."""
        return self._left_s > 0

    def push(self, cleaned: Samples) -> None:
        """The next block ``[n]``, some 20 ms, of what the canceller has left."""
        length_s = len(cleaned) / self._rate_hz
        level_db = 10 * float(np.log10(max(float(np.mean(np.square(cleaned))), 1e-12)))
        loud = level_db > max(LOUD_DB, self._noise_db + ABOVE_NOISE_DB)
        self._noise_db = min(self._noise_db + NOISE_RISES_DB_A_S * length_s, level_db)
        self._left_s = HOLD_S if loud else max(self._left_s - length_s, 0.0)
