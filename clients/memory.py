"""The echoic memory as a client knows it: how much is held, and how soon it will be gone."""

from __future__ import annotations

from dataclasses import dataclass

from clients.realtime import ServerEvent

MEMORY_EVENT = "echoic.memory"


@dataclass(slots=True)
class MemoryGauge:
    """Follows ``echoic.memory`` events; between them the expiry runs down by itself."""

    weights: tuple[float, ...] = ()  # of the segments, the oldest first
    fading: bool = False
    _left_s: float = 0.0
    _told_at: float = 0.0

    def push(self, event: ServerEvent) -> None:
        """The server says how things stand."""
        body = event.body
        self.weights, self.fading = tuple(body["weights"]), body["fading"]
        self._left_s, self._told_at = body["left_s"], event.received_at

    def left_s(self, now: float) -> float:
        """Seconds until all of it is gone, if nobody is heard from now on."""
        return max(self._left_s - (now - self._told_at if self.fading else 0.0), 0.0)
