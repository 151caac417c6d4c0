"""How tables of figures look on a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table


def titled(title: str, caption: str = "") -> Table:
    """An empty table under its title, with what its figures mean below it."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption or None,
        caption_justify="left",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
    )
