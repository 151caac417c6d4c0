"""`echoic models list|fetch|path|verify`: the model store from the command line."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pipeline.ports import StoreError
from pipeline.store import Store

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_VERBS = {
    "list": "show the models that Echoic embeds and whether they are here",
    "fetch": "bring models into the store (all that are missing, unless named)",
    "path": "print the folder of a model (of the store, unless named)",
    "verify": "read every byte and compare with the pinned SHA-256",
}
_PREPARED = "Made of them for quick starts: {} in {}. It may be deleted, and is made again."


def add_parser(subparsers: Subparsers) -> None:
    """Add `models` and its verbs to the commands of `echoic`."""
    parser = subparsers.add_parser("models", help="fetch and check the embedded models")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="|".join(_VERBS))
    for verb, purpose in _VERBS.items():
        command = verbs.add_parser(verb, help=purpose, description=purpose)
        if verb != "list":
            command.add_argument("names", nargs="*", metavar="NAME", help="a name that `echoic models list` shows")


def run(args: argparse.Namespace, store: Store | None = None) -> int:
    """Carry out a `models` command; the exit status."""
    store = store or Store.default(os.environ)
    console = Console(highlight=False, markup=False)
    match args.verb:
        case "list":
            console.print(_table(store))
            if size := store.prepared.bytes:
                console.print(_PREPARED.format(decimal(size), store.prepared.root), soft_wrap=True)
            return 0
        case "fetch":
            return _fetch(store, args.names or store.names(), console)
        case "path":
            paths = [store.path(name) for name in args.names] or [store.root]
            console.print("\n".join(map(str, paths)), soft_wrap=True)
            return 0
        case _:
            return _verify(store, args.names or store.names(), console)


def _table(store: Store) -> Table:
    table = Table(title=f"Models in {store.root}", title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    table.add_column("licence", no_wrap=True)
    table.add_column("state")
    for name, entry in store.entries.items():
        fault = store.fault(name)
        state = Text(fault, "yellow") if fault else Text("here", "green")
        table.add_row(name, entry.about, entry.licence, state)
    return table


def _fetch(store: Store, names: list[str], console: Console) -> int:
    for name in names:
        with _StepBars(console) as report:
            path = store.fetch(name, report)
        console.print(f"{name}: {path}", soft_wrap=True)
    return 0


def _verify(store: Store, names: list[str], console: Console) -> int:
    faults = 0
    for name in names:
        try:
            with _StepBars(console) as report:
                store.verify(name, report)
            console.print(f"{name}: every byte is as pinned")
        except StoreError as error:
            console.print(str(error), style="red", soft_wrap=True)
            faults += 1
    for spoilt in store.prepared.verify():
        console.print(f"deleted, and made again at the next start: {spoilt}", style="yellow", soft_wrap=True)
    return 1 if faults else 0


class _StepBars:
    """Draws a bar for each step that the store reports; a step is done when the next one begins."""

    def __init__(self, console: Console) -> None:
        size = TextColumn("{task.fields[size]}", justify="right")
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(), size, TimeElapsedColumn(), console=console
        )
        self._step = ""

    def __call__(self, step: str, done: int, total: int) -> None:
        if step != self._step:
            self._end_step()
            self._bars.start()
            self._bars.add_task(step, total=total or None, size=decimal(total) if total else "")
            self._step = step
        self._bars.update(self._bars.task_ids[-1], completed=done)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_details: object) -> None:
        if not failure:
            self._end_step()
        if self._step:
            self._bars.stop()

    def _end_step(self) -> None:
        if self._step:
            last = self._bars.tasks[-1]
            self._bars.update(last.id, total=last.total or 1, completed=last.total or 1)
