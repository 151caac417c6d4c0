"""A replay held against an earlier one: what changed, and whether it became too slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from clients.latency import AUDIBLE, PARTS
from clients.summary import Spread, Summary
from clients.tables import titled
from pipeline.ports import InputError

WHOLE = "voice_to_voice"


@dataclass(frozen=True, slots=True)
class Change:
    """One latency then and now, at both percentiles."""

    variant: str
    part: str
    before: Spread
    now: Spread

    @property
    def ratios(self) -> tuple[float | None, float | None]:
        """Now over before at p50 and p95; None where it took no time before."""
        return _ratio(self.before.p50_ms, self.now.p50_ms), _ratio(self.before.p95_ms, self.now.p95_ms)

    def exceeds(self, max_ratio: float) -> bool:
        """Whether voice to voice became slower than allowed; parts only inform, as time moves between them."""
        return self.part == WHOLE and any(ratio is not None and ratio > max_ratio for ratio in self.ratios)


def compare(old: Mapping[str, Any], summaries: Mapping[str, Summary]) -> list[Change]:
    """The changes of every variant that both replays have; ``old`` is a report as read back from JSON.

    Raises InputError when the two have no timed variant in common, as nothing could be held against it.
    """
    changes: list[Change] = []
    for variant, summary in summaries.items():
        now = {WHOLE: summary.voice_to_voice, **summary.parts}
        before = _spreads(old, variant)
        changes += [
            Change(variant, part, then, current)
            for part in (WHOLE, *PARTS)
            if (then := before.get(part)) and (current := now.get(part))
        ]
    if not changes:
        raise InputError("the baseline and this replay have no timed variant in common")
    return changes


def render_changes(changes: Sequence[Change], max_ratio: float) -> Table:
    """A table of all changes; those past the ratio stand out."""
    table = titled("Against the baseline")
    for column in ("variant", "until"):
        table.add_column(column, no_wrap=True)
    for column in ("p50\nbefore", "\nnow", "\nratio", "p95\nbefore", "\nnow", "\nratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for change in changes:
        before, now = change.before, change.now
        at_p50, at_p95 = (f"{ratio:.2f}" if ratio is not None else "-" for ratio in change.ratios)
        table.add_row(
            change.variant,
            PARTS.get(change.part, "voice to voice"),
            *(f"{before.p50_ms:.0f}", f"{now.p50_ms:.0f}", at_p50),
            *(f"{before.p95_ms:.0f}", f"{now.p95_ms:.0f}", at_p95),
            style=_style(change, max_ratio),
            end_section=change.part == AUDIBLE,
        )
    return table


def _spreads(old: Mapping[str, Any], variant: str) -> dict[str, Spread]:
    summary = old["variants"].get(variant, {}).get("summary", {"parts": {}})
    found = {WHOLE: summary.get(WHOLE), **summary["parts"]}
    return {part: Spread(**figures) for part, figures in found.items() if figures}


def _ratio(before_ms: float, now_ms: float) -> float | None:
    return now_ms / before_ms if before_ms > 0 else None


def _style(change: Change, max_ratio: float) -> str | None:
    if change.exceeds(max_ratio):
        return "bold red"
    return "bold" if change.part == WHOLE else None
