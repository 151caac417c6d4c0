"""Folders that are complete or absent: a stamp, written last, says what each file was when it was made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from pipeline.ports import StoreError
from pipeline.sources import Progress, sha256_of

_STAMP = ".echoic.json"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it was when its folder was stamped."""

    name: str
    size: int
    sha256: str


class _Known(Protocol):
    """A file whose bytes are known."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...


def stamp(folder: Path, pins: str) -> None:
    """Say what is in the folder; ``pins``: a digest of what it was made from."""
    files = [StoredFile(path.name, path.stat().st_size, sha256_of(path)) for path in sorted(folder.iterdir())]
    written = {"pins": pins, "files": [asdict(file) for file in files]}
    (folder / _STAMP).write_text(json.dumps(written, indent=1))


def stamped(folder: Path, pins: str | None = None) -> list[StoredFile] | None:
    """What the stamp says is there; None without a stamp, and for one with other pins than these."""
    try:
        read = json.loads((folder / _STAMP).read_bytes())
        return [StoredFile(**file) for file in read["files"]] if pins in (None, read["pins"]) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def missing(folder: Path, files: Sequence[_Known]) -> str | None:
    """Which file is not there as a whole, by names and sizes, or None."""
    for file in files:
        path = folder / file.name
        size = path.stat().st_size if path.is_file() else 0
        if size != file.size:
            return f"{file.name} has {size} of {file.size} bytes"
    return None


def check(folder: Path, files: Sequence[_Known], progress: Progress) -> None:
    """Delete the files whose SHA-256 is wrong, and raise StoreError that names them."""
    wrong, done, total = [], 0, sum(file.size for file in files)
    for file in files:
        found = sha256_of(folder / file.name)
        done += file.size
        progress("verifying", done, total)
        if found != file.sha256:
            (folder / file.name).unlink()
            wrong.append(f"{file.name} had a wrong SHA-256 and is deleted: expected {file.sha256}, found {found}")
    if wrong:
        raise StoreError("; ".join(wrong))
