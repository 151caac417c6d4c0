"""Silence, as it is measured: in the sound while sound comes, and on the clock once it has stopped coming."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.ports import SAMPLES_PER_MS


@dataclass(slots=True)
class Silence:
    """Where the sound stands: positions are samples at 16 kHz, times seconds on the session's clock."""

    gap_s: float  # for so long no frame comes by chance
    position: int = 0
    last_speech: int = 0
    frame_at: float = 0.0

    def frame(self, position: int, last_speech: int, now: float) -> None:
        """Sound up to ``position`` came in; ``last_speech`` is the last sample that sounded like speech."""
        self.position, self.last_speech, self.frame_at = position, last_speech, now

    def stalled(self, now: float) -> bool:
        """Whether the sound has stopped coming."""
        return now - self.frame_at > self.gap_s

    def since_ms(self, end: int, now: float) -> float:
        """How long nobody has spoken, where ``end`` is the last sample of speech."""
        missing_s = now - self.frame_at if self.stalled(now) else 0.0
        return (self.position - end) / SAMPLES_PER_MS + missing_s * 1000
