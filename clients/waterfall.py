"""A picture of where the time went: one bar a recording, its parts in colour, one panel a variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clients.latency import AUDIBLE, PARTS, RECEIVED, percentile
from clients.measure import TurnResult
from clients.summary import Outcome
from pipeline.ports import InputError
from pipeline.timing import Mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Waiting is sand, recognition blue, the language model green, speech violet, transport grey.
COLOURS = {
    Mark.PAUSE_SEEN.value: "#d9cbb3",
    Mark.ASR_FINAL.value: "#5b8def",
    Mark.FIRST_TOKEN.value: "#2f9e78",
    Mark.FIRST_PHRASE.value: "#8fd3b6",
    Mark.FIRST_AUDIO_MADE.value: "#9b7ede",
    Mark.TURN_END_DECIDED.value: "#f2b84b",
    Mark.FIRST_AUDIO_SENT.value: "#e8785a",
    RECEIVED: "#9aa5b1",
    AUDIBLE: "#56616d",
}
INK, FAINT = "#27303a", "#8a94a0"
BAR_INCHES = 0.23
LONGEST_NAME = 30


def draw(outcomes: Mapping[str, Sequence[Outcome]], path: Path) -> None:
    """Write the picture as PNG. Raises InputError when no turn was timed or the file cannot be written."""
    timed = {variant: _timed(members) for variant, members in outcomes.items()}
    timed = {variant: turns for variant, turns in timed.items() if turns}
    if not timed:
        raise InputError(f"{path}: nothing to draw, as no reply could be timed")
    names = _by_latency(timed)
    figure = _figure(panels=len(timed), bars=len(names))
    axes = figure.subplots(1, len(timed), sharey=True, squeeze=False)[0]
    for panel, (variant, turns) in zip(axes, timed.items(), strict=True):
        _draw_panel(panel, variant, turns, names)
    _label_bars(axes[0], names)
    _draw_legend(figure, timed)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, format="png")
    except OSError as error:
        raise InputError(f"{path}: cannot write the picture: {error.strerror}") from error


def _timed(outcomes: Sequence[Outcome]) -> dict[str, TurnResult]:
    return {each.recording.name: answer for each in outcomes if (answer := each.result.answer)}


def _by_latency(timed: Mapping[str, Mapping[str, TurnResult]]) -> list[str]:
    """All names, fastest first by the first variant; those it lacks come last."""
    first = next(iter(timed.values()))
    names = {name for turns in timed.values() for name in turns}
    slowest = float("inf")
    return sorted(names, key=lambda name: (_total(first[name]) if name in first else slowest, name))


def _total(turn: TurnResult) -> int:
    return sum(turn.parts_ms.values())


def _figure(panels: int, bars: int) -> Figure:
    """A figure without a window or a global state, tall enough for its bars."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 + 6.4 * panels, 2.1 + BAR_INCHES * bars), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _draw_panel(panel: Axes, variant: str, turns: Mapping[str, TurnResult], names: Sequence[str]) -> None:
    for row, name in enumerate(names):
        if turn := turns.get(name):
            _draw_bar(panel, row, turn)
    totals = [_total(turn) for turn in turns.values()]
    panel.set_xlim(0, max(*totals, 1) * 1.12)
    panel.set_ylim(len(names) - 0.4, -0.6)
    _draw_percentiles(panel, totals)
    panel.set_title(
        f"{variant}  ({len(turns)} turns)", loc="left", color=INK, fontweight="bold", fontsize=11, pad=24
    )
    panel.set_xlabel("milliseconds after the last sample of speech", color=FAINT, fontsize=9)
    panel.grid(axis="x", color="#e6e9ed", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(colors=FAINT, length=0, labelsize=8)
    panel.spines[:].set_visible(False)


def _draw_bar(panel: Axes, row: int, turn: TurnResult) -> None:
    left = 0
    for part, length in turn.parts_ms.items():
        panel.barh(row, length, left=left, height=0.7, color=COLOURS[part], linewidth=0)
        left += length
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    panel.annotate(
        f"{left}", (left, row), (4, 0), textcoords="offset points", va="center", fontsize=7, color=INK, bbox=paper
    )


def _draw_percentiles(panel: Axes, totals: Sequence[int]) -> None:
    for percent, style, side in ((50, "-", "right"), (95, "--", "left")):
        at = percentile(totals, percent) or 0.0
        panel.axvline(at, color=INK, linewidth=1, linestyle=style, alpha=0.6, zorder=0.8)
        label = f" p{percent} \n {at:.0f} ms "
        where = panel.get_xaxis_transform()
        panel.text(at, 1.0, label, transform=where, ha=side, va="bottom", fontsize=8, color=INK)


def _label_bars(panel: Axes, names: Sequence[str]) -> None:
    short = [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name in names]
    panel.set_yticks(range(len(names)), short, fontsize=8, color=INK)


def _draw_legend(figure: Figure, timed: Mapping[str, Mapping[str, TurnResult]]) -> None:
    from matplotlib.patches import Patch

    used = {
        part for turns in timed.values() for turn in turns.values() for part, ms in turn.parts_ms.items() if ms
    }
    patches = [Patch(color=COLOURS[part], label=label) for part, label in PARTS.items() if part in used]
    columns = min(len(patches), 3 * len(timed))
    figure.legend(
        handles=patches, loc="outside upper left", ncols=columns, frameon=False, fontsize=8, labelcolor=INK
    )
