"""Weights as CTranslate2 saves them, read back; files of another kind are refused with a reason."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from ctranslate2.specs.model_spec import ModelSpec

from pipeline.backends.ctranslate2_weights import UnknownWeightsError, read_weights


class Tiny(ModelSpec):
    """A model of a matrix, a number, and the matrix once more."""

    def __init__(self, matrix: np.ndarray) -> None:
        super().__init__()
        self.matrix, self.again, self.heads = matrix, matrix.copy(), np.int16(8)

    @property
    def name(self) -> str:
        return "Tiny"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    spec = Tiny(np.arange(6, dtype=np.float16).reshape(2, 3))
    spec.validate()
    spec.save(str(tmp_path))
    return tmp_path / "model.bin"


def test_variables_come_back_as_they_were_saved(saved: Path) -> None:
    found = read_weights(saved, "Tiny", 1)
    assert np.array_equal(found["matrix"], [[0, 1, 2], [3, 4, 5]])
    assert found["matrix"].dtype == np.float16
    assert found["heads"] == 8


@pytest.mark.parametrize(("model", "revision"), [("Tiny", 2), ("Other", 1)])
def test_another_model_is_refused_by_name(saved: Path, model: str, revision: int) -> None:
    with pytest.raises(UnknownWeightsError, match=f"known is {model} {revision}"):
        read_weights(saved, model, revision)


def test_another_version_of_the_format_is_refused(saved: Path) -> None:
    saved.write_bytes(struct.pack("<I", 99) + saved.read_bytes()[4:])
    with pytest.raises(UnknownWeightsError, match="version 99"):
        read_weights(saved, "Tiny", 1)


def test_a_file_that_was_cut_off_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-20])
    with pytest.raises(UnknownWeightsError, match="ends too early"):
        read_weights(saved, "Tiny", 1)
