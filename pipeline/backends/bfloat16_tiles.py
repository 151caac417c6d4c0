"""Matrix products of many rows in tiles of bfloat16 (Intel's AMX), for compiled loops.

Four tiles of sums are kept, of two strips of rows with two strips of weights, so each tile that is loaded is
multiplied twice; with fewer the unit waits for its tiles.

A strip is 16 rows, cut into tiles of 32 columns: ``[columns / 32, 16, 32]``. In a tile of weights the columns are
in pairs, a pair of all 16 rows after the other, as ``in_tiles`` puts them (tiles.py).
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.backends.bfloats import Bfloats
from pipeline.backends.compiler import njit
from pipeline.backends.prefetch import prefetch
from pipeline.backends.tiles import BYTE, INT64, call, in_tiles, lined_up, load, pointer, usable

Floats = NDArray[np.float32]

TILE_ROWS, TILE_COLUMNS = 16, 32
BLOCK = 2 * TILE_ROWS  # rows, and weights, that are multiplied at a time
_TILE_BYTES = 1024
_X, _WEIGHT = 4, 6  # the tiles behind those of the sums


def has_tiles() -> bool:
    """Whether this processor multiplies tiles of bfloat16, and this process may."""
    return bool(llvmlite.binding.get_host_cpu_features().get("amx-bf16")) and usable()


def _multiply_block(
    _typing: Any,
    _x: Any,
    _x_strip: Any,
    _weight: Any,
    _weight_strip: Any,
    _next_weight: Any,
    _tiles: Any,
    _sums: Any,
    _sums_row: Any,
) -> Any:
    """Sums ``[BLOCK, BLOCK]`` of two strips of rows with two of weights, so many tiles each.

    Takes addresses, each with the bytes from one strip, or row of float32 sums, to the next.
    """

    def build(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[ir.Value, ...]) -> Any:
        x, x_strip, weight, weight_strip, next_weight, tiles, sums, sums_row = arguments
        for number in range(4):
            call(builder, "tilezero", BYTE(number))
        size = builder.mul(tiles, INT64(_TILE_BYTES))
        with cgutils.for_range_slice(builder, INT64(0), size, INT64(_TILE_BYTES), INT64) as (at, _):
            for first, begin, strip in ((_X, x, x_strip), (_WEIGHT, weight, weight_strip)):
                place = builder.add(begin, at)
                load(builder, first, place, INT64(2 * TILE_COLUMNS))
                load(builder, first + 1, builder.add(place, strip), INT64(2 * TILE_COLUMNS))
            ahead = builder.add(next_weight, builder.lshr(at, INT64(2)))
            prefetch(builder, ahead, _TILE_BYTES // 4, ahead=0)
            for number in range(4):
                pair = BYTE(_X + number // 2), BYTE(_WEIGHT + number % 2)
                call(builder, "tdpbf16ps", BYTE(number), *pair)
        for number in range(4):
            row = builder.mul(sums_row, INT64(number // 2 * TILE_ROWS))
            place = builder.add(builder.add(sums, row), INT64(number % 2 * TILE_ROWS * 4))
            call(builder, "tilestored64", BYTE(number), pointer(builder, place), sums_row)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 8), build


multiply_block: Any = intrinsic(_multiply_block)


def weights_in_tiles(layers: Floats) -> Bfloats:
    """Weights ``[layers, rows, columns]`` as ``[layers, strips, tiles, 16, 32]``, columns filled up with 0."""
    layers = np.pad(layers, ((0, 0), (0, 0), (0, -layers.shape[2] % TILE_COLUMNS)))
    bits = np.ascontiguousarray(layers).view(np.uint32)
    rounded = ((bits + 0x8000) >> 16).astype(np.uint16)
    count, rows, columns = layers.shape
    tiled = in_tiles(rounded.view(np.int8)).view(np.uint16)
    return tiled.reshape(count, rows // TILE_ROWS, columns // TILE_COLUMNS, TILE_ROWS, TILE_COLUMNS)


@njit(nogil=True, cache=True)
def strips(rows: int, columns: int) -> Bfloats:
    """Room for so many rows in tiles, ``[strips, tiles, 16, 32]``. Raises ValueError unless they fill them."""
    if rows % BLOCK or columns % TILE_COLUMNS:
        raise ValueError("rows that do not fill their tiles")
    shape = rows // TILE_ROWS, columns // TILE_COLUMNS, TILE_ROWS, TILE_COLUMNS
    return lined_up(2 * rows * columns).view(np.uint16).reshape(shape)


@njit(nogil=True, cache=True)
def multiply(x: Bfloats, weight: Bfloats, out: Floats) -> None:
    """``out [rows, weights]``: the products of so many of both, multiples of BLOCK, each in tiles.

    Raises ValueError where they are none.
    """
    if out.shape[0] % BLOCK or out.shape[1] % BLOCK:
        raise ValueError("products of less than a block")
    tiles = x.shape[1]
    for column in range(0, out.shape[1], BLOCK):
        some = weight[column // TILE_ROWS].ctypes.data
        for row in range(0, out.shape[0], BLOCK):
            multiply_block(
                x[row // TILE_ROWS].ctypes.data,
                x.strides[0],
                some,
                weight.strides[0],
                some + 2 * weight.strides[0] + row // BLOCK * tiles * (_TILE_BYTES // 4),
                tiles,
                out[row:, column:].ctypes.data,
                out.strides[0],
            )
