"""Recordings to replay: sound files, and what is known about what is said in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.format import AudioError
from audio.resample import resample
from audio.wav import read_recording
from pipeline.ports import EchoicError, InputError

MANIFEST = "manifest.jsonl"
EXTENSIONS = frozenset({".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64"})
OVERLAP = "i"  # the category of two voices at once, left out of word error rates


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One recording, float32 mono ``[samples]`` at ``rate_hz``, and what its manifest says of it.

    ``transcript`` "" means that nobody speaks; None that nobody wrote down what is said. ``speech_start_s`` and
    ``speech_end_s`` are the first and last sample of speech; ``pauses`` inside it are (start, length) in seconds.
    """

    path: Path
    samples: NDArray[np.float32]
    rate_hz: int
    transcript: str | None = None
    speech_start_s: float | None = None
    speech_end_s: float | None = None
    pauses: tuple[tuple[float, float], ...] = ()
    language: str = "en"
    category: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.path.stem

    @property
    def duration_s(self) -> float:
        """How long it sounds."""
        return len(self.samples) / self.rate_hz

    def at(self, rate_hz: int) -> NDArray[np.float32]:
        """Its samples at another rate."""
        return resample(self.samples, self.rate_hz, rate_hz)

    @property
    def silent(self) -> bool:
        """Whether it is known that nobody speaks in it."""
        return self.transcript == ""

    @property
    def scored(self) -> bool:
        """Whether its words count: one English voice at a time, and known what it says."""
        return bool(self.transcript) and self.language == "en" and OVERLAP not in self.category


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file that cannot be used, and why."""

    path: Path
    reason: str


def read_recordings(places: Iterable[Path]) -> Iterator[Recording | Rejected]:
    """The recordings among files and folders (searched deeply), each once, or why one is none.

    What is bad never hides what is good; only an unreadable manifest raises InputError, as it speaks for many.
    """
    manifests: dict[Path, Mapping[Path, dict[str, Any]]] = {}
    for path in dict.fromkeys(path for place in places for path in _files_at(place)):
        if path.is_dir():
            yield Rejected(
                path, f"{path}: no recordings in this folder (looked for {' '.join(sorted(EXTENSIONS))})"
            )
            continue
        facts = _manifest_entry(path, manifests)
        try:
            yield _read(path, facts if facts is not None else _text_beside(path))
        except (AudioError, EchoicError) as error:
            yield Rejected(path, str(error))


def usable(places: Iterable[Path], categories: Sequence[str] | None) -> Iterator[Recording]:
    """The recordings that can be read, of these categories or of all; says of the others why they are skipped."""
    for each in read_recordings(places):
        if isinstance(each, Rejected):
            print(f"echoic: skipped {each.reason}", file=sys.stderr)
        elif not categories or set(categories) & set(each.category):
            yield each


def read_manifest(path: Path) -> dict[Path, dict[str, Any]]:
    """The entries of a ``manifest.jsonl`` by the absolute path of their file."""
    entries = {}
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            entries[(path.parent / entry["file"]).resolve()] = entry
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f'{path}, line {number}: expected a JSON object with a "file" ({error})') from error
    return entries


def _files_at(place: Path) -> list[Path]:
    """The sound files in a folder, or the folder itself if there are none; a file is itself."""
    if not place.is_dir():
        return [place]
    files = sorted(path for path in place.rglob("*") if path.suffix.lower() in EXTENSIONS and path.is_file())
    return files or [place]


def _manifest_entry(path: Path, manifests: dict[Path, Mapping[Path, dict[str, Any]]]) -> dict[str, Any] | None:
    """The file's entry in a manifest in its folder or up to two above; ``manifests`` remembers those read."""
    for folder in path.resolve().parents[:3]:
        manifest = folder / MANIFEST
        if manifest not in manifests:
            manifests[manifest] = read_manifest(manifest) if manifest.is_file() else {}
        if entry := manifests[manifest].get(path.resolve()):
            return entry
    return None


def _text_beside(path: Path) -> dict[str, Any]:
    beside = path.with_suffix(".txt")
    return {"transcript": _read_text(beside).strip()} if beside.is_file() else {}


def _read(path: Path, facts: Mapping[str, Any]) -> Recording:
    chunk = read_recording(path)
    try:
        return Recording(
            path=path,
            samples=chunk.samples,
            rate_hz=chunk.rate_hz,
            transcript=facts.get("transcript"),
            speech_start_s=facts.get("speech_start_s"),
            speech_end_s=facts.get("speech_end_s"),
            pauses=tuple((float(start), float(length)) for start, length in facts.get("pauses") or ()),
            language=facts.get("language") or "en",
            category=tuple(facts.get("category") or ()),
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: its entry in {MANIFEST} cannot be used: {error}") from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text: {error}") from error
