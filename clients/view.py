"""What a talk looks like at a moment, apart from any terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from clients.loudspeaker import Turn
from clients.memory import MemoryGauge
from clients.microphone import SILENT_DB, Gate


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was said and will not change any more, or a notice."""

    who: str  # "you", "echoic" or "" for a notice
    text: str
    unheard: str = ""  # what of the reply was cut off


@dataclass(slots=True)
class View:
    """The state that screens draw. The talk writes it, screens only read."""

    gate: Gate
    devices: tuple[str, str] = ("", "")
    input_db: float = SILENT_DB
    output_db: float = SILENT_DB
    user_speaking: bool = False
    stable: str = ""
    unstable: str = ""
    said: str = ""
    unsaid: str = ""
    turns: Sequence[Turn] = ()
    memory: MemoryGauge = field(default_factory=MemoryGauge)
    memory_left_s: float = 0.0
    away: bool = False  # the connection is broken
    gaps: int = 0
    overruns: int = 0
    underruns: int = 0
    delay_ms: float = 0.0


class Screen(Protocol):
    """Shows a talk as it goes on."""

    def add(self, line: Line) -> None:
        """A line that is final."""

    def update(self, view: View) -> None:
        """The state has changed; called many times a second."""
