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
        self._crowds: dict[int, int] = {}  # conversations there were when one left, in the same way
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
            _forget(self._held, end)

    def share(self) -> float:
        """How much of the cores' time jobs held in the busiest ten of the last thirty seconds; 1 is all of it.

        The busiest, because people speak and listen in turn, and what counts is when it is their turn together.
        """
        newest = int(self._clock())
        with self._lock:
            held = [self._held.get(second, 0.0) for second in range(newest - REMEMBERED_S, newest + 1)]
        busiest = max(sum(held[start : start + WINDOW_S]) for start in range(len(held) - WINDOW_S + 1))
        return busiest / (WINDOW_S * self._cores)

    def left(self, conversations: int) -> None:
        """One of so many conversations is over; what it took counts for a while."""
        now = self._clock()
        with self._lock:
            self._crowds[int(now)] = max(conversations, self._crowds.get(int(now), 0))
            _forget(self._crowds, now)

    def each(self, conversations: int) -> float:
        """The share of each of so many conversations, those included that left in the last thirty seconds."""
        since = int(self._clock()) - REMEMBERED_S
        with self._lock:
            crowds = [crowd for second, crowd in self._crowds.items() if second >= since]
        return self.share() / max(conversations, *crowds, 1)


def _forget(by_second: dict[int, float] | dict[int, int], now: float) -> None:
    for second in [each for each in by_second if each < now - REMEMBERED_S - 1]:
        del by_second[second]
