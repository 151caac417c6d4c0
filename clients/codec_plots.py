"""Two pictures of echoic memory: recovery against bytes, and the window while a recording plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clients.codec_timeline import Moment, Stretch
from pipeline.ports import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from codec.verdict import Verdict

INK, FAINT, WRONG = "#27303a", "#8a94a0", "#e8785a"
SETS = ("#2f9e78", "#5b8def", "#9b7ede", "#f2b84b")


def draw_recovery(verdicts: Mapping[str, Verdict], path: Path) -> None:
    """One point a codec and set of examples, with its interval and its wrong-state control."""
    figure = _figure(7, 4.5)
    axes = figure.add_subplot()
    for colour, part in zip(SETS, next(iter(verdicts.values())).recovery, strict=False):
        ordered = sorted(verdicts.values(), key=lambda verdict: verdict.bytes)
        x = [verdict.bytes for verdict in ordered]
        value, low, high = np.array([verdict.recovery[part]["state"] for verdict in ordered]).T
        axes.errorbar(x, value, (value - low, high - value), color=colour, marker="o", capsize=3, label=part)
        wrong = [verdict.recovery[part]["wrong state"][0] for verdict in ordered]
        axes.plot(x, wrong, color=colour, marker="x", linestyle=":", label=f"{part}, wrong state")
    axes.set(
        xlabel="bytes of a full window",
        ylabel="recovery (1: as good as the text)",
        ylim=(min(0, *axes.get_ylim()), 1),
    )
    axes.legend(frameon=False)
    _save(figure, path)


def draw_memory(moments: Sequence[Moment], stretches: Sequence[Stretch], path: Path) -> None:
    """Slots over time, newest on top, with the words where they were said and the entropy below."""
    figure = _figure(11, 5)
    window, entropy = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    times = [moment.time_s for moment in moments]
    image = np.stack([moment.slots for moment in moments], 1)
    window.imshow(image, aspect="auto", origin="lower", cmap="magma", extent=(0, times[-1], 0, len(image)))
    window.set_ylabel("slots, newest on top")
    for stretch in stretches:
        window.axvspan(stretch.begin_s, stretch.end_s, ymin=0.97, color=SETS[0])
        window.annotate(
            stretch.text, (stretch.begin_s, len(image)), rotation=20, fontsize=7, color=INK, annotation_clip=False
        )
    entropy.plot(times, [moment.entropy_bits for moment in moments], color=SETS[1])
    entropy.set(xlabel="seconds", ylabel="entropy (bits)", ylim=(0, None))
    _save(figure, path)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _save(figure: Figure, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, format="png")
    except OSError as error:
        raise InputError(f"{path}: cannot write the picture: {error.strerror}") from error
