"""Load: how long jobs wait for the models, which is what a machine that is too busy looks like from inside."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 10.0
MOST_JOBS = 4_096
FEWEST_JOBS = 40  # fewer say nothing: a conversation makes as many in two seconds


class Load:
    """The waits of the last ten seconds; noted by worker threads, asked by the server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: deque[tuple[float, float]] = deque(maxlen=MOST_JOBS)
        self._lock = threading.Lock()

    def note(self, waited_s: float) -> None:
        """A job began after waiting for so long."""
        with self._lock:
            self._waits.append((self._clock(), waited_s))

    def wait_ms(self) -> float:
        """What nineteen of twenty jobs waited at most; 0 where there were too few to tell."""
        since = self._clock() - WINDOW_S
        with self._lock:
            waits = sorted(waited for at, waited in self._waits if at >= since)
        return waits[len(waits) * 19 // 20] * 1000 if len(waits) >= FEWEST_JOBS else 0.0
