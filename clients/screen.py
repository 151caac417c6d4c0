"""A conversation as it happens, on a terminal or in a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from clients.hearing import Hearing, Reply
from clients.latency import PARTS, SHORT
from clients.measure import TurnResult
from clients.tables import titled

INDENT = 9


class Screen:
    """Prints lines as they become final; on a terminal, what is still changing is shown below them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._told: set[str] = set()

    def say(self, text: str, style: str = "") -> None:
        """A line of its own."""
        self.console.print(Text(text, style=style))

    @contextmanager
    def turn(self, at_s: float, speaker: str) -> Iterator[None]:
        """Head a turn of the user that begins at this second of the session; ``follow`` within the block."""
        self._told = set()
        minutes, seconds = divmod(at_s, 60)
        self.console.print(Text.assemble((f"{minutes:3.0f}:{seconds:04.1f}  ", "dim"), (speaker, "bold cyan")))
        with Live(console=self.console, transient=True, auto_refresh=False) as self._live:
            yield
        self._live = None

    def follow(self, hearing: Hearing) -> None:
        """Show what is new: final lines once, unfinished ones as they grow."""
        for reply in hearing.replies:
            self._once(f"heard {reply.id}", "heard", reply.heard, "")
            if reply.finished:
                self._once(f"said {reply.id}", "answered", _said(reply), "green")
        growing = hearing.open_reply
        if growing:
            self._show("answering", growing.text, "green")
        elif hearing.user_speaking:
            self._show("hearing", hearing.transcript, "cyan")
        elif self._live:
            self._live.update(Text(), refresh=True)

    def _once(self, key: str, label: str, text: str, style: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self.console.print(_line(label, text, style))

    def _show(self, label: str, text: str, style: str) -> None:
        if self._live and self.console.is_terminal:
            self._live.update(_line(label, text + " …", f"{style} dim"), refresh=True)


def turn_table(turns: Sequence[TurnResult | None]) -> Table:
    """One row a turn, its parts in the order of the work; None is a turn that was not answered."""
    table = titled(
        "From the last sample of speech to the first audible one, in milliseconds",
        "Each column is the time until that moment, counted from the one before it: a row adds up. "
        "A 0 was done in the shadow of something else. Read ahead: tokens read while the user still spoke.",
    )
    table.padding, table.pad_edge = (0, 1, 0, 0), False  # narrow enough for 80 columns
    table.add_column("", justify="right")
    for part in PARTS:
        table.add_column(SHORT[part], justify="right", no_wrap=True)
    table.add_column("in\nall", justify="right", style="bold")
    table.add_column("read\nahead", justify="right", style="dim")
    for number, turn in enumerate(turns, start=1):
        if turn is None or turn.voice_to_voice_ms is None:
            table.add_row(str(number), *("-" for _ in PARTS), "-", "-")
            continue
        parts = (str(turn.parts_ms.get(part, 0)) for part in PARTS)
        ahead = str(turn.record.get("prefilled_tokens", "-"))
        table.add_row(str(number), *parts, str(turn.voice_to_voice_ms), ahead)
    return table


def _line(label: str, text: str, style: str) -> Table:
    """A label and a text that wraps beside it, not under it."""
    line = Table.grid()
    line.add_column(width=INDENT + 10)
    line.add_column()
    line.add_row(Text(" " * INDENT + label, style="dim"), Text(text or "…", style=style))
    return line


def _said(reply: Reply) -> str:
    if reply.status == "completed":
        return reply.text.strip()
    return f"{reply.text.strip()} [{reply.status}{': ' + reply.error if reply.error else ''}]"
