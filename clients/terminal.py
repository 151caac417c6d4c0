"""Screens for a talk: a live one for terminals, a plain one for pipes and screen readers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from clients.latency import PARTS
from clients.loudspeaker import Turn
from clients.microphone import SILENT_DB
from clients.view import Line, View

STYLES = {"you": "cyan", "echoic": "green"}
LABEL_WIDTH = 8
METER_WIDTH = 18
LOUD_DB, CLIPPING_DB = -12.0, -1.0
EIGHTHS = " ▏▎▍▌▋▊▉█"
SHOWN_TURNS = 3
MEMORY_WIDTH = 10  # of the newest segment
PALE_S = 1.0
STDERR = 2
LONGEST_BAR = 50
PART_STYLES: Mapping[str, str] = dict(
    zip(
        PARTS,
        ("#5f87af", "#00afaf", "#5faf5f", "#afaf00", "#d78700", "#d75f5f", "#af5faf", "#8787d7", "#9e9e9e"),
        strict=True,
    )
)


class PlainScreen:
    """Prints each line once, when it is final; with ``memory`` also how many segments are remembered."""

    def __init__(self, console: Console, *, memory: bool = False) -> None:
        self._console = console
        self._memory = memory
        self._held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def add(self, line: Line) -> None:
        """Print it."""
        self._console.print(_plain(line), markup=False, soft_wrap=True)

    def update(self, view: View) -> None:
        """A pipe is told what is final, and where it asked for that when the memory changes."""
        held = len(view.memory.weights)
        if self._memory and held != self._held:
            self._held = held
            self.add(
                Line("", f"echoic memory: {held} of the last speech segments" if held else "echoic memory: gone")
            )


class LiveScreen:
    """Prints final lines, and below them what is still changing; use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(quiet_libraries())
        self._open.enter_context(self._live)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add(self, line: Line) -> None:
        """Print it above the live part."""
        self._console.print(render_line(line))

    def update(self, view: View) -> None:
        """Draw the live part anew."""
        self._live.update(render_view(view), refresh=True)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep sound libraries written in C from writing into the picture: Python's own errors still come through."""
    if sys.stderr is not sys.__stderr__:  # somebody has redirected it already
        yield
        return
    descriptor, python_errors = STDERR, sys.stderr
    kept = os.dup(descriptor)
    with open(kept, "w", buffering=1) as sys.stderr, open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), descriptor)
        try:
            yield
        finally:
            os.dup2(kept, descriptor)
            sys.stderr = python_errors


def render_line(line: Line) -> RenderableType:
    """A line that is final: who, and what."""
    if not line.who:
        return Text(line.text, style="yellow")
    text = Text(line.text)
    if line.unheard:
        text.append("… " + line.unheard, style="dim strike")
    return _labelled(line.who, text)


def render_view(view: View) -> RenderableType:
    """The live part: words as they come, levels, the latest turns, what the keys do."""
    parts: list[RenderableType] = []
    if view.user_speaking:
        words = Text.assemble(view.stable, " " if view.stable else "", (view.unstable, "dim"))
        parts.append(_labelled("you", words if words.plain.strip() else Text("…", style="dim")))
    if view.said or view.unsaid:
        said = view.said + " " * view.unsaid.startswith(" ")
        parts.append(_labelled("echoic", Text.assemble((said, "bold green"), (view.unsaid.lstrip(), "dim"))))
    if parts:
        parts.append(Text())
    parts.append(_meters(view))
    parts += [memory_bars(view)] if view.memory.weights else []
    parts += [_latency(view)] if view.turns else []
    parts.append(_foot(view))
    title = Text.assemble(("echoic", "bold"), " ", _state(view))
    return Panel(
        Group(*parts), title=title, title_align="left", box=box.ROUNDED, border_style="dim", padding=(0, 1)
    )


def _state(view: View) -> Text:
    gate = view.gate
    if view.away:
        return Text("● connection lost, trying again", style="bold red")
    if gate.muted:
        return Text("● muted", style="bold red")
    if gate.push_to_talk and not gate.talking:
        return Text("○ push-to-talk: press space", style="dim")
    if view.said or view.unsaid:
        return Text("● speaking", style="green")
    return Text("● hearing you", style="cyan") if view.user_speaking else Text("● listening", style="dim")


def _meters(view: View) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_row(
        Text("mic".ljust(LABEL_WIDTH), style="dim"),
        meter(view.input_db),
        Text("  speaker", style="dim"),
        meter(view.output_db),
    )
    return row


def meter(level_db: float) -> Text:
    """A level in dB full scale as a bar of eighths, yellow where it is loud and red where it clips."""
    share = min(max((level_db - SILENT_DB) / -SILENT_DB, 0.0), 1.0)
    whole, eighths = divmod(round(share * METER_WIDTH * 8), 8)
    bar = "█" * whole + EIGHTHS[eighths]
    style = "red" if level_db > CLIPPING_DB else "yellow" if level_db > LOUD_DB else "green"
    shown = f"{level_db:4.0f} dB" if level_db > SILENT_DB else "   - dB"
    return Text.assemble((bar.strip().ljust(METER_WIDTH, "·"), style), " ", (shown, "dim"))


def memory_bars(view: View) -> Table:
    """The segments of the echoic memory, the newest first, each as long as it counts, and how soon they are gone.

    They pale while nobody is heard.
    """
    left_s = view.memory_left_s
    style = "magenta" if not view.memory.fading or left_s > PALE_S else "dim magenta"
    bars = Text()
    for weight in reversed(view.memory.weights):
        bars.append("█" * max(round(weight * MEMORY_WIDTH), 1), style=style).append(" ")
    bars.append(f" gone in {left_s:.1f} s" if view.memory.fading else " held while somebody speaks", style="dim")
    return _labelled("memory", bars)


def _latency(view: View) -> Group:
    turns = view.turns[-SHOWN_TURNS:]
    # The longest turn fills the line; below two seconds a second is half of it, so that quick turns look quick.
    ms_a_cell = max(2000, *(turn.total_ms for turn in turns)) / LONGEST_BAR
    rows = [_labelled("", Text.assemble(bar(turn, ms_a_cell), f" {turn.total_ms / 1000:.2f} s")) for turn in turns]
    shown = {part for turn in turns for part, ms in turn.parts_ms.items() if round(ms / ms_a_cell)}
    legend = Text()
    for part in PARTS:
        if part in shown:
            legend.append("■ ", style=PART_STYLES[part]).append(PARTS[part] + "  ", style="dim")
    return Group(*rows, _labelled("", legend))


def bar(turn: Turn, ms_a_cell: float) -> Text:
    """Where the time of a turn went, a colour for each part."""
    text = Text()
    for part, ms in turn.parts_ms.items():
        text.append("▆" * round(ms / ms_a_cell), style=PART_STYLES.get(part, ""))
    return text


def _foot(view: View) -> Text:
    keys = Text()
    for key, what in (("space", "talk"), ("m", "mute"), ("q", "quit")):
        keys.append(f"{key} ", style="bold").append(f"{what}   ", style="dim")
    troubles = [
        f"{count} {name}"
        for name, count in (("gaps", view.gaps), ("overruns", view.overruns), ("underruns", view.underruns))
    ]
    keys.append(" · ".join(troubles), style="yellow" if view.gaps + view.overruns + view.underruns else "dim")
    if view.delay_ms:
        keys.append(f" · {view.delay_ms:.0f} ms round trip", style="dim")
    if view.gate.half_duplex:
        keys.append(" · half duplex", style="dim")
    return keys


def _labelled(label: str, text: Text) -> Table:
    row = Table.grid()
    row.add_column(width=LABEL_WIDTH)
    row.add_column()
    row.add_row(Text(label, style=STYLES.get(label, "dim")), text)
    return row


def _plain(line: Line) -> str:
    cut = f" [not heard: {line.unheard}]" if line.unheard else ""
    return f"{line.who}: {line.text}{cut}" if line.who else f"({line.text})"
