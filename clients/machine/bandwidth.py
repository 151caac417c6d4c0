"""How fast this processor reads memory: the limit of everything that reads all its weights for a token."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.backends.compiler import njit

Words = NDArray[np.int64]
PLACES = 4  # a processor's prefetchers follow several streams faster than one


class Reading:
    """A stretch of memory, and the time that reading all of it takes with a plain loop of sums."""

    def __init__(self, size: int) -> None:
        """``size``: in bytes; as many as a token's weights, so that caches help the one as much as the other."""
        words = -(-size // (8 * PLACES)) * PLACES
        self.bytes = words * 8
        self._words = np.ones(words, np.int64)
        _sum(self._words[:PLACES])

    def one_core(self) -> float:
        """Bytes a second, read by one thread."""
        return self._timed(lambda: _sum(self._words))

    def all_cores(self) -> float:
        """Bytes a second, read by a thread a core, each its own part."""
        edges = np.linspace(0, len(self._words) // PLACES, (os.cpu_count() or 1) + 1).astype(int) * PLACES
        parts = [self._words[begin:end] for begin, end in pairwise(edges)]
        return self._timed(lambda: _side_by_side(parts))

    def _timed(self, read: Callable[[], object]) -> float:
        began = time.perf_counter()
        read()
        return self.bytes / (time.perf_counter() - began)


def _side_by_side(parts: list[Words]) -> None:
    threads = [threading.Thread(target=_sum, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@njit(nogil=True, cache=True)
def _sum(words: Words) -> np.int64:
    """The sum, read from so many places at a time."""
    part, total = len(words) // PLACES, np.int64(0)
    for place in range(part):
        total += words[place] + words[part + place] + words[2 * part + place] + words[3 * part + place]
    return total
