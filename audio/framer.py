"""Framing: re-cuts a stream into exact frames, and holds the last seconds of it for the pre-roll."""

from __future__ import annotations

import numpy as np

from audio.format import AudioChunk, Samples

_NOTHING = np.zeros(0, np.float32)


class Framer:
    """Re-cuts a stream of pieces into frames of exactly ``frame_samples``; pieces equal the whole."""

    def __init__(self, frame_samples: int) -> None:
        self.frame_samples = frame_samples
        self._rest = _NOTHING

    @property
    def held_samples(self) -> int:
        """How many samples wait for the next frame; always fewer than a frame."""
        return len(self._rest)

    def push(self, samples: Samples) -> list[Samples]:
        """The frames that are complete now, each ``[frame_samples]``."""
        sound = np.concatenate((self._rest, samples))
        whole = len(sound) - len(sound) % self.frame_samples
        self._rest = sound[whole:].copy()  # a view would keep the whole piece alive
        return list(sound[:whole].reshape(-1, self.frame_samples))

    def finish(self) -> Samples:
        """What is left at the end of the stream, shorter than a frame; a new stream may follow."""
        rest, self._rest = self._rest, _NOTHING
        return rest


class PreRoll:
    """The last ``limit_samples`` of a stream, addressed by position since the stream began."""

    def __init__(self, limit_samples: int, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self._ring = np.zeros(limit_samples, np.float32)
        self._end = 0

    @property
    def start(self) -> int:
        """The position of the oldest sample that is still held."""
        return max(0, self._end - len(self._ring))

    @property
    def end(self) -> int:
        """The position after the newest sample."""
        return self._end

    def push(self, samples: Samples) -> None:
        """Add the stream's next samples; the oldest ones go."""
        kept = samples[-len(self._ring) :]
        self._end += len(samples)
        self._ring[self._slots(self._end - len(kept), self._end)] = kept

    def wipe(self, until: int) -> None:
        """Overwrite with silence what is held before this position."""
        self._ring[self._slots(self.start, max(self.start, min(until, self._end)))] = 0

    def cut(self, start: int, end: int | None = None) -> AudioChunk:
        """A copy of what is held between two positions (up to the newest sample by default).

        Where ``start`` is no longer held the chunk begins later: its own ``start`` says where.
        """
        last = self._end if end is None else min(end, self._end)
        first = min(max(start, self.start), max(last, self.start))
        return AudioChunk(self._ring[self._slots(first, last)], self.rate_hz, first)

    def _slots(self, start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.arange(start, end) % len(self._ring)
