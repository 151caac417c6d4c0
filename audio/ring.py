"""A ring of samples between a sound card's thread and the conversation: neither ever waits for the other."""

from __future__ import annotations

import numpy as np

from audio.format import Samples


class SampleRing:
    """float32 mono samples from one writing thread to one reading thread.

    Made for a sound card's callback: no lock, no wait, no array is made. Each of the two positions, samples since
    the ring was made, is changed by its own side only, after the samples have been copied, so the other side never
    sees a sample that is not there. What does not fit is lost and counted.
    """

    def __init__(self, limit_samples: int) -> None:
        self.written = 0
        self.read = 0
        self.lost_samples = 0
        self._ring = np.zeros(limit_samples, np.float32)

    @property
    def waiting(self) -> int:
        """How many samples are there to be read."""
        return self.written - self.read

    def write(self, samples: Samples) -> int:
        """Add as many of the samples ``[n]`` as there is room for; returns how many. For the writing thread."""
        room = len(self._ring) - self.waiting
        fitting = min(len(samples), room)
        self.lost_samples += len(samples) - fitting
        at = self.written % len(self._ring)
        first = min(fitting, len(self._ring) - at)
        self._ring[at : at + first] = samples[:first]
        self._ring[: fitting - first] = samples[first:fitting]
        self.written += fitting
        return fitting

    def read_into(self, out: Samples) -> int:
        """Fill the beginning of ``out`` with what waits; returns how many samples. For the reading thread."""
        count = min(len(out), self.waiting)
        at = self.read % len(self._ring)
        first = min(count, len(self._ring) - at)
        out[:first] = self._ring[at : at + first]
        out[first:count] = self._ring[: count - first]
        self.read += count
        return count

    def take(self) -> Samples:
        """All that waits, as an array of its own. For a reading thread that may allocate."""
        out = np.empty(self.waiting, np.float32)
        return out[: self.read_into(out)]

    def skip_to(self, position: int) -> None:
        """Leave out what was written before this position. For the reading thread."""
        self.read = min(max(self.read, position), self.written)
