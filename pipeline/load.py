"""Load: how much of the cores' time the models took lately: one conversation more would need its part too."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable

WINDOW_S = 10
REMEMBERED_S = 30


class Load:
    """The jobs of the last seconds; noted by worker threads, asked by the server."""

    def __init__(self, cores: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._cores = cores
        self._clock = clock
        self._held: defaultdict[int, float] = defaultdict(float)  # seconds of cores, in each second of the clock
        self._lock = threading.Lock()

    def note(self, seconds: float, cores: int) -> None:
        """A job is over that held so many cores for so long, whoever else had some of their time meanwhile."""
        end = self._clock()
        begin = max(end - seconds, end - REMEMBERED_S)
        with self._lock:
            while begin < end:
                until = min(end, int(begin) + 1.0)
                self._held[int(begin)] += cores * (until - begin)
                begin = until
            for second in [each for each in self._held if each < end - REMEMBERED_S - 1]:
                del self._held[second]

    def share(self) -> float:
        """How much of the cores' time jobs held in the busiest ten of the last thirty seconds; 1 is all of it.

        The busiest, because people speak and listen in turn, and what counts is when it is their turn together.
        """
        newest = int(self._clock())
        with self._lock:
            held = [self._held.get(second, 0.0) for second in range(newest - REMEMBERED_S, newest + 1)]
        busiest = max(sum(held[start : start + WINDOW_S]) for start in range(len(held) - WINDOW_S + 1))
        return busiest / (WINDOW_S * self._cores)
