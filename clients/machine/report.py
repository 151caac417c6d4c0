"""The table told to people and to programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from clients.machine.figures import Figure, Goal, Row, Skipped
from clients.tables import titled
from pipeline.ports import InputError

FORMAT, VERSION = "echoic-machine", 1
LIBRARIES = ("torch", "ctranslate2", "numba", "onnxruntime", "transformers")


def render(rows: Sequence[Row], skipped: Sequence[Skipped]) -> RenderableType:
    """The table, how each figure was measured, and what could not be."""
    table = titled(
        f"Against the limits of this machine ({describe_machine()['processor']})",
        "Typical values; in brackets the best of several, or a p99's median. One run; what is compared "
        "takes turns.",
    )
    table.collapse_padding, table.pad_edge = True, False
    table.add_column("")
    for column in ("measured", "limit", "ratio", "goal"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row), style="yellow" if row.met is False else "")
    ways = [Text.assemble((f"{row.what}: ", "bold"), (_way(row), "dim")) for row in rows]
    gaps = [Text(f"not measured: {one.what}: {one.why}", style="yellow") for one in skipped]
    return Group(table, *ways, *gaps)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = f"{short(row.ratio.value)} {row.ratio.unit}" if row.ratio else ""
    return (
        row.what,
        tell(row.measured),
        tell(replace(row.limit, count=1)) if row.limit else "",
        ratio,
        tell_goal(row.goal) if row.goal else "",
    )


def _way(row: Row) -> str:
    return f"{row.how}; against {row.against}" if row.against else row.how


def tell(figure: Figure) -> str:
    """The typical value and, where it was measured more than once, the best."""
    best = f" ({short(figure.best)})" if figure.count > 1 else ""
    return f"{short(figure.value)} {figure.unit}{best}"


def tell_goal(goal: Goal) -> str:
    """The bound with its side."""
    return f"{'>=' if goal.at_least else '<='} {goal.bound:g} {goal.unit}"


def short(value: float) -> str:
    """Two digits that count, at least."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def as_json(rows: Sequence[Row], skipped: Sequence[Skipped]) -> dict[str, Any]:
    """Everything as plain values; ``format`` and ``version`` say how to read it."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "machine": describe_machine(),
        "rows": [{**asdict(row), "met": row.met} for row in rows],
        "skipped": [asdict(one) for one in skipped],
    }


def write_json(rows: Sequence[Row], skipped: Sequence[Skipped], path: Path) -> None:
    """Write it; raises InputError where that is impossible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(as_json(rows, skipped), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot write the report: {error.strerror}") from error


def describe_machine() -> dict[str, Any]:
    """What the figures are of."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores, {names[0] if names else platform.processor() or platform.machine()}"
