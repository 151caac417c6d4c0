"""Cores: the processor's cores as something to be taken, so that models never fight over them.

A model that computes on several threads waits at a barrier after every product for its slowest thread. One other
busy thread on the same cores costs it many times its own share: on two cores, a language model on two threads
next to one thread of other work fell from 27 tokens a second to 1. Taking turns costs only the other's job.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.load import Load


class Cores:
    """So many cores, handed out first come, first served; for worker threads."""

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free = self._count = max(1, count)
        self.load = Load(self._count, clock)
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """How many wait for cores."""
        return len(self._queue)

    @contextmanager
    def take(self, wanted: int) -> Iterator[None]:
        """Hold ``wanted`` cores (at most all of them), waiting for those who asked before."""
        share = min(wanted, self._count)
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.wait_for(lambda: self._queue[0] is ticket and self._free >= share)
            self._queue.popleft()
            self._free -= share
            self._changed.notify_all()
        taken_at = self._clock()
        try:
            yield
        finally:
            self.load.note(self._clock() - taken_at, share)
            with self._changed:
                self._free += share
                self._changed.notify_all()
