"""What the table is made of: figures, the limits and goals they are held against, and rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clients.latency import percentile

Go = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured: typically, at best, and how often."""

    value: float
    best: float
    unit: str
    count: int = 1


def median_ms(seconds: Sequence[float]) -> Figure:
    """The median of measured times, and the shortest."""
    return Figure(statistics.median(seconds) * 1000, min(seconds) * 1000, "ms", len(seconds))


def mean_ms(seconds: Sequence[float]) -> Figure:
    """The mean of measured times, and the shortest."""
    return Figure(statistics.fmean(seconds) * 1000, min(seconds) * 1000, "ms", len(seconds))


def p99_ms(seconds: Sequence[float]) -> Figure:
    """What ninety-nine of a hundred stay below; the best is the median."""
    return Figure((percentile(seconds, 99) or 0.0) * 1000, statistics.median(seconds) * 1000, "ms", len(seconds))


def median_rate(per_second: Sequence[float], unit: str) -> Figure:
    """The median of measured rates, and the highest."""
    return Figure(statistics.median(per_second), max(per_second), unit, len(per_second))


def median_percent(shares: Sequence[float]) -> Figure:
    """The median of measured shares, and the lowest."""
    return Figure(statistics.median(shares) * 100, min(shares) * 100, "%", len(shares))


def exactly(value: float, unit: str) -> Figure:
    """What is counted, or measured once."""
    return Figure(value, value, unit)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The figure against its limit: how many times, how many steps, or percent."""

    value: float
    unit: Literal["x", "steps", "%"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of the ratio, where it has the ratio's unit, or else of the figure itself."""

    bound: float
    unit: str
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether a value of this unit is on the right side."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, the limit it is held against (``against`` says which), its goal, and how both were measured."""

    what: str
    measured: Figure
    how: str
    against: str = ""
    limit: Figure | None = None
    ratio: Ratio | None = None
    goal: Goal | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is; None without one."""
        if self.goal is None:
            return None
        of_ratio = self.ratio is not None and self.goal.unit == self.ratio.unit
        return self.goal.met(self.ratio.value if self.ratio and of_ratio else self.measured.value)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that could not be measured, and why."""

    what: str
    why: str


async def interleaved(goes: Mapping[str, Go], rounds: int) -> dict[str, list[float]]:
    """So many rounds of every go, a round after the other: all meet the same machine, none is always first.

    A go returns what it measured; the first round only warms up.
    """
    names = list(goes)
    measured: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            value = await goes[name]()
            if number:
                measured[name].append(value)
    return measured


async def seconds(job: Callable[[], Awaitable[object]]) -> float:
    """How long the job takes."""
    began = time.perf_counter()
    await job()
    return time.perf_counter() - began
