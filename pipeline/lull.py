"""Lull: nothing has been going on in a conversation for a while, so that nothing is urgent."""

from __future__ import annotations

from pipeline.timing import Clock

LULL_S = 2.0


class Lull:
    """Told now and then whether anything is going on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._busy_at = clock()

    def note(self, *, busy: bool) -> bool:
        """So it is now; returns whether it has been quiet for long enough."""
        now = self._clock()
        if busy:
            self._busy_at = now
        return now - self._busy_at >= LULL_S
