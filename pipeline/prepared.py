"""What was made of models' files for the next start to be quick: weights as they are computed with.

Nothing here is precious: whatever is absent, stale or broken is made again, and all of it may be deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from filelock import FileLock

from pipeline.ports import StoreError
from pipeline.sources import Progress, unwatched
from pipeline.stamped import check, missing, stamp, stamped

T = TypeVar("T")

log = logging.getLogger(__name__)


class Form(NamedTuple):
    """What is made of a model; ``version`` changes whenever it would come out differently."""

    name: str
    version: int


class Prepared:
    """Folders under one root, one for each model's name and form. Several processes may use one root at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, source: Path, form: Form) -> Path | None:
        """What was made of this folder's files as they are now; None where there is nothing, or not all of it."""
        place = self._place(source, form)
        files = stamped(place, _pins(source, form))
        return None if files is None or missing(place, files) else place

    def recall(self, source: Path, form: Form, read: Callable[[Path], T]) -> T | None:
        """What ``read`` makes of what is there; None where there is nothing, or nothing that can be read."""
        place = self.find(source, form)
        if place is None:
            return None
        try:
            return read(place)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s is prepared anew: %s cannot be read (%s)", source, place, error)
            shutil.rmtree(place, ignore_errors=True)
            return None

    def keep(self, source: Path, form: Form, make: Callable[[Path], object]) -> Path | None:
        """Have it made, into an empty folder, unless it is there. None where the disk does not take it."""
        place = self._place(source, form)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / f".{place.name}.lock"):  # another process may be making the same
                return self.find(source, form) or self._make(place, _pins(source, form), make)
        except OSError as error:
            log.warning("%s starts slowly: nothing can be kept in %s (%s)", source, self.root, error)
            return None

    def verify(self, progress: Progress = unwatched) -> list[str]:
        """Read every byte; what has changed since it was made is deleted, and named."""
        spoilt = []
        for folder in self._folders():
            try:
                check(folder, stamped(folder) or [], progress)
            except (StoreError, OSError) as error:
                shutil.rmtree(folder, ignore_errors=True)
                spoilt.append(f"{folder.name}: {error}")
        return spoilt

    @property
    def bytes(self) -> int:
        """How much room all of it takes."""
        return sum(path.stat().st_size for folder in self._folders() for path in folder.iterdir())

    def _folders(self) -> Iterator[Path]:
        return (path for path in sorted(self.root.glob("[!.]*")) if path.is_dir())

    def _place(self, source: Path, form: Form) -> Path:
        return self.root / f"{source.name}.{form.name}"

    def _make(self, place: Path, pins: str, make: Callable[[Path], object]) -> Path:
        aside = self.root / f".making-{place.name}"
        shutil.rmtree(aside, ignore_errors=True)  # from a killed process: the lock says that nobody works there
        try:
            aside.mkdir()
            make(aside)
            for path in aside.iterdir():
                _flush(path)  # a stamp must not outlive, in a power cut, what it speaks for
            stamp(aside, pins)
            shutil.rmtree(place, ignore_errors=True)
            aside.replace(place)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return place


def _pins(source: Path, form: Form) -> str:
    """A digest that changes when a file of the folder does, by name, size or time, or the form."""
    stats = ((path.name, path.stat()) for path in sorted(source.glob("*")) if path.is_file())
    lines = [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats]
    return hashlib.sha256("\n".join([*lines, f"{form.name} {form.version}"]).encode()).hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
