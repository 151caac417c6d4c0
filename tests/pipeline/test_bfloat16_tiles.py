"""Products in tiles of bfloat16, and what they are told of the processor."""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import pytest

from pipeline.backends.bfloat16_tiles import has_tiles, multiply, strips, weights_in_tiles
from pipeline.backends.compiler import njit
from pipeline.backends.kernels import Floats, highest, pack, unpack_row
from pipeline.backends.tiled_attention import in_tiles
from pipeline.backends.tiles import LAYOUT, configure, release

FEATURES = (
    "import pipeline.backends.lean_kernels; from numba.core.registry import cpu_target; "
    "print(cpu_target.target_context.codegen().magic_tuple())"
)


@njit
def product(x: Floats, weight: np.ndarray, out: Floats) -> None:
    configure(LAYOUT.ctypes.data)
    multiply(in_tiles(x), weight, out)
    release()


@pytest.mark.skipif(not has_tiles(), reason="this processor has no tiles for bfloat16 (AMX)")
@pytest.mark.parametrize("columns", [32, 96, 256])
def test_a_product_in_tiles_is_the_product_up_to_rounding(columns: int) -> None:
    dice = np.random.default_rng(0)
    x = dice.standard_normal((64, columns), np.float32)
    weight = dice.standard_normal((96, columns), np.float32)
    out = np.empty((64, 96), np.float32)
    product(x, weights_in_tiles(weight[None])[0], out)
    assert np.abs(out - x @ weight.T).max() < 0.02 * columns**0.5


def test_rows_that_do_not_fill_their_tiles_are_refused() -> None:
    with pytest.raises(ValueError, match="fill"):
        in_tiles(np.ones((150, 64), np.float32))


def test_the_columns_of_weights_are_filled_up_to_whole_tiles() -> None:
    assert weights_in_tiles(np.ones((2, 32, 240), np.float32)).shape == (2, 2, 8, 16, 32)
    assert strips(64, 256).ctypes.data % 64 == 0


@pytest.mark.parametrize("tiled", [False, True])
def test_a_row_of_packed_weights_can_be_had_back(tiled: bool) -> None:
    weight = np.random.default_rng(0).standard_normal((128, 128), np.float32)
    packed, row = pack([weight], tiled=tiled), np.empty(128, np.float32)
    for number in (0, 17, 127):
        unpack_row(packed, 0, number, row)
        assert np.abs(row - weight[number]).max() <= packed.scales[0, number]


@pytest.mark.parametrize("numbers", [[-3.0, -0.5, -7.0], [0.0, -1.0, 2.5], [4.0]])
def test_the_highest_number_is_found_on_either_side_of_zero(numbers: list[float]) -> None:
    assert highest(np.array(numbers, np.float32)) == max(numbers)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have one vector width")
def test_loops_are_compiled_for_whole_vectors() -> None:
    """Whatever is compiled first: numba asks for the processor's features only once."""
    asked = subprocess.run([sys.executable, "-c", FEATURES], capture_output=True, text=True, check=True)
    assert "-prefer-256-bit" in asked.stdout
