"""Weights on disk as they are computed with: named tuples of arrays, a file each, mapped instead of read.

A mapped file costs nothing until it is used, and its memory is the system's to take back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from pipeline.prepared import Form, Prepared

W = TypeVar("W", bound=tuple[Any, ...])

_NUMBERS = "numbers.json"


def write(weights: tuple[Any, ...], folder: Path) -> None:
    """Write a named tuple of arrays, numbers and named tuples of the same kind."""
    numbers: dict[str, float] = {}
    _write(weights, folder, "", numbers)
    (folder / _NUMBERS).write_text(json.dumps(numbers))


def read(kind: type[W], folder: Path) -> W:
    """The named tuple of this kind that was written. Raises OSError, ValueError or KeyError where it was not."""
    weights: W = _mapped(kind, folder, "", json.loads((folder / _NUMBERS).read_bytes()))
    return weights


def kept(kind: type[W], source: Path, form: Form, prepared: Prepared | None, make: Callable[[], W]) -> W:
    """What an earlier start made of a model's folder; where it made nothing, what ``make`` makes now."""
    if prepared and (found := prepared.recall(source, form, partial(read, kind))) is not None:
        return found
    made = make()
    if prepared:
        prepared.keep(source, form, partial(write, made))
    return made


def _write(weights: Any, folder: Path, prefix: str, numbers: dict[str, float]) -> None:
    for name, value in weights._asdict().items():
        match value:
            case np.ndarray():
                np.save(folder / f"{prefix}{name}.npy", value)
            case tuple():
                _write(value, folder, f"{prefix}{name}.", numbers)
            case _:
                numbers[prefix + name] = value


def _mapped(kind: Any, folder: Path, prefix: str, numbers: dict[str, float]) -> Any:
    values: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        if prefix + name in numbers:
            values[name] = numbers[prefix + name]
        elif hasattr(hint, "_fields"):
            values[name] = _mapped(hint, folder, f"{prefix}{name}.", numbers)
        else:
            # Changes, which nobody makes, would be this process's own: compiled loops are for arrays that can.
            values[name] = np.asarray(np.load(folder / f"{prefix}{name}.npy", mmap_mode="c"))
    return kind(**values)
