"""The weights in a CTranslate2 model's ``model.bin``, as ``ctranslate2.specs.ModelSpec.save`` writes them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 6
TYPES = ("float32", "int8", "int16", "int32", "float16")  # in the order of their numbers


class UnknownWeightsError(Exception):
    """The file is of a version, a kind of model or a type of numbers that is not known here."""


class _Reader:
    """A place in the mapped file."""

    def __init__(self, path: Path) -> None:
        self._bytes = np.memmap(path, np.uint8, "r")
        self._at = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        piece = self._bytes[self._at : self._at + size]
        if len(piece) < size:
            raise UnknownWeightsError("the file ends too early")
        self._at += size
        return piece

    def numbers(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{layout}", bytes(self.take(struct.calcsize(f"<{layout}"))))

    def text(self) -> str:
        (size,) = self.numbers("H")
        return bytes(self.take(size)[:-1]).decode()

    def variable(self) -> tuple[str, NDArray[Any]]:
        name = self.text()
        (rank,) = self.numbers("B")
        shape = self.numbers(f"{rank}I")
        number, size = self.numbers("BI")
        data = self.take(size)
        if number >= len(TYPES):
            raise UnknownWeightsError(f"{name}: type {number}")
        return name, data.view(TYPES[number]).reshape(shape)


def read_weights(path: Path, model: str, revision: int) -> dict[str, NDArray[Any]]:
    """All variables by name, mapped and not read yet. Raises UnknownWeightsError."""
    reader = _Reader(path)
    (version,) = reader.numbers("I")
    if version != VERSION:
        raise UnknownWeightsError(f"{path}: version {version} of the format; known is {VERSION}")
    found = reader.text(), *reader.numbers("I")
    if found != (model, revision):
        raise UnknownWeightsError(f"{path}: a {found[0]} of revision {found[1]}; known is {model} {revision}")
    (count,) = reader.numbers("I")
    return dict(reader.variable() for _ in range(count))
