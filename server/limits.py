"""Limits on what one client may send."""

from __future__ import annotations

import asyncio

from pipeline.timing import Clock

BURST_S = 2.0


class Pace:
    """Reads a client no faster than so many bytes and events a second, after a burst of two seconds' worth.

    Who sends more waits at the socket: nothing is lost, nothing grows, and others have their turn.
    """

    def __init__(self, bytes_per_s: float, events_per_s: float, clock: Clock) -> None:
        self._byte_s, self._event_s = 1 / bytes_per_s, 1 / events_per_s
        self._clock = clock
        self._paid_until = clock() - BURST_S

    async def take(self, size: int) -> None:
        """A message of this size was taken: wait until the next one may be."""
        now = self._clock()
        cost = max(size * self._byte_s, self._event_s)
        self._paid_until = max(self._paid_until, now - BURST_S) + cost
        if self._paid_until > now:
            await asyncio.sleep(self._paid_until - now)
