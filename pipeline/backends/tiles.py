"""Matrix products of whole tiles in the processor's own unit for them (Intel's AMX), for compiled loops.

A tile of the unit is 16 rows of 64 bytes; one instruction multiplies two of them, int8 by int8, and adds up
exactly in int32. Activations have 12 bits, so each goes in as two rows: ``x = 16 * high + low``. Eight tokens fill
a tile, and the sums are the same integers that the dot products give (dot_products.py), whoever shares the tile.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.backends.compiler import njit
from pipeline.backends.prefetch import LINE, prefetch

Floats = NDArray[np.float32]
Integers = NDArray[np.int8] | NDArray[np.int16]

TILE_TOKENS, TILE_ROWS, TILE_COLUMNS = 8, 16, 64
STRIPS = 4  # of TILE_ROWS weight rows each, multiplied side by side
TILED_ROWS = STRIPS * TILE_ROWS  # weights come in multiples of these, and of the columns
COMPILED = bool(llvmlite.binding.get_host_cpu_features().get("amx-int8")) and platform.machine() == "x86_64"

_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18
BYTE, INT64 = ir.IntType(8), ir.IntType(64)
_SUMS, _FLOATS = ir.VectorType(ir.IntType(32), TILE_ROWS), ir.VectorType(ir.FloatType(), TILE_ROWS)
_X, _WEIGHT = STRIPS, STRIPS + 1  # the tiles behind those of the sums
# Palette 1; then for each tile the bytes in a row, from byte 16 on, and the rows, from byte 48 on.
LAYOUT = np.frombuffer(bytes([1] + [0] * 15 + [64, 0] * 8 + [0] * 16 + [16] * 8 + [0] * 8), np.uint8)


@cache
def usable() -> bool:
    """Whether this process may use the unit, which Linux wants to be asked for."""
    if not COMPILED or not sys.platform.startswith("linux"):
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    return int(call(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)) == 0


def fits(rows: int, columns: int) -> bool:
    """Whether weights of this shape can be cut into tiles."""
    return rows % TILED_ROWS == 0 and columns % TILE_COLUMNS == 0


@njit(nogil=True, cache=True)
def lined_up(size: int) -> NDArray[np.int8]:
    """Room for so many bytes, from where a line begins: a tile's row that lies across two takes twice as long."""
    space = np.empty(size + LINE, np.int8)
    return space[-space.ctypes.data % LINE :][:size]


@njit(nogil=True, cache=True)
def lined_up_floats(rows: int, columns: int) -> Floats:
    """The same for floats ``[rows, columns]``, which malloc does not always begin with a line."""
    return lined_up(4 * rows * columns).view(np.float32).reshape((rows, columns))


def in_tiles(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Weights ``[layers, rows, columns]`` in the order in which the unit takes them, the array's shape the same.

    Tile by tile, and in each four columns of every row, then the next four.
    """
    layers, rows, columns = weights.shape
    cut = (layers, rows // TILE_ROWS, TILE_ROWS, columns // TILE_COLUMNS, TILE_COLUMNS // 4, 4)
    tiles = lined_up(weights.size).reshape(weights.shape)
    tiles[:] = weights.reshape(cut).transpose(0, 1, 3, 4, 2, 5).reshape(weights.shape)
    return tiles


@njit(nogil=True, cache=True)
def place_in_tiles(row: int, column: int, columns: int) -> int:
    """Where a weight is in this order, among all of its layer."""
    tile = row // TILE_ROWS * columns // TILE_COLUMNS + column // TILE_COLUMNS
    four = tile * TILE_COLUMNS // 4 + column % TILE_COLUMNS // 4
    return (four * TILE_ROWS + row % TILE_ROWS) * 4 + column % 4


def _configure(_typing: Any, _layout: Any) -> Any:
    """Begin to use tiles; takes the address of LAYOUT."""

    def build(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[ir.Value, ...]) -> Any:
        call(builder, "ldtilecfg", pointer(builder, arguments[0]))
        return context.get_dummy_value()

    return types.void(types.intp), build


def _release(_typing: Any) -> Any:
    """No more tiles are used: what is in them need not be saved when threads take turns."""

    def build(context: Any, builder: ir.IRBuilder, _signature: Any, _arguments: tuple[ir.Value, ...]) -> Any:
        call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), build


def _multiply_strips(_typing: Any, _x: Any, _weight: Any, _apart: Any, _columns: Any, _sums: Any) -> Any:
    """Sums ``[STRIPS, 16, TILE_ROWS]`` of 16 rows ``x [16, columns]`` with strips of weights, so many bytes apart.

    Takes addresses, of int8 and of int32, and these two numbers. A strip is TILE_ROWS rows of weights in tiles.
    """

    def build(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[ir.Value, ...]) -> Any:
        x, weight, apart, columns, sums = arguments
        for strip in range(STRIPS):
            call(builder, "tilezero", BYTE(strip))
        with cgutils.for_range_slice(builder, INT64(0), columns, INT64(TILE_COLUMNS), INT64) as (column, _):
            load(builder, _X, builder.add(x, column), columns)
            tile = builder.add(weight, builder.mul(column, INT64(TILE_ROWS)))
            for strip in range(STRIPS):
                place = builder.add(tile, builder.mul(apart, INT64(strip)))
                prefetch(builder, place, TILE_ROWS * TILE_COLUMNS)
                load(builder, _WEIGHT, place, INT64(TILE_COLUMNS))
                call(builder, "tdpbssd", BYTE(strip), BYTE(_X), BYTE(_WEIGHT))
        for strip in range(STRIPS):
            place = builder.add(sums, INT64(strip * TILE_ROWS * TILE_COLUMNS))
            call(builder, "tilestored64", BYTE(strip), pointer(builder, place), INT64(TILE_COLUMNS))
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 5), build


def _scale_strips(
    _typing: Any,
    _sums: Any,
    _tokens: Any,
    _scales: Any,
    _weight_scales: Any,
    _apart: Any,
    _out: Any,
    _out_row: Any,
) -> Any:
    """``out [tokens, rows]`` from the sums of strips so many rows apart, a tile's row in a vector.

    Takes addresses, these two numbers, and the bytes from one row of ``out`` to the next.
    """

    def build(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[ir.Value, ...]) -> Any:
        sums, tokens, scales, weight_scales, apart, out, out_row = arguments
        for strip in range(STRIPS):
            there = builder.mul(apart, INT64(4 * strip))
            factors = builder.load(pointer(builder, builder.add(weight_scales, there), _FLOATS), align=4)
            with cgutils.for_range(builder, tokens, intp=INT64) as loop:
                total = _total(builder, builder.add(sums, INT64(strip * TILE_ROWS * TILE_COLUMNS)), loop.index)
                scale = pointer(builder, builder.add(scales, builder.mul(loop.index, INT64(4))), _FLOATS.element)
                scaled = builder.fmul(builder.fmul(total, _everywhere(builder, builder.load(scale))), factors)
                place = builder.add(builder.add(out, there), builder.mul(loop.index, out_row))
                builder.store(scaled, pointer(builder, place, _FLOATS), align=4)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 7), build


def _total(builder: ir.IRBuilder, sums: ir.Value, token: ir.Value) -> ir.Value:
    """A token's sums ``16 * high + low`` in one tile, as floats."""
    high = builder.add(sums, builder.mul(token, INT64(TILE_COLUMNS)))
    low = builder.add(high, INT64(TILE_TOKENS * TILE_COLUMNS))
    one, two = (builder.load(pointer(builder, half, _SUMS), align=4) for half in (high, low))
    return builder.sitofp(builder.add(builder.shl(one, _SUMS([4] * TILE_ROWS)), two), _FLOATS)


def _everywhere(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A vector with this number in every lane."""
    nothing = _FLOATS(ir.Undefined)
    first = builder.insert_element(nothing, value, INT64(0))
    return builder.shuffle_vector(first, nothing, ir.VectorType(ir.IntType(32), TILE_ROWS)([0] * TILE_ROWS))


configure: Any = intrinsic(_configure)
release: Any = intrinsic(_release)
multiply_strips: Any = intrinsic(_multiply_strips)
scale_strips: Any = intrinsic(_scale_strips)


def load(builder: ir.IRBuilder, tile: int, address: ir.Value, row_bytes: ir.Value) -> None:
    """Load a tile whose rows are so far apart."""
    call(builder, "tileloadd64", BYTE(tile), pointer(builder, address), row_bytes)


def pointer(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type = BYTE) -> ir.Value:
    """The address, of something of this kind, as LLVM wants it."""
    return builder.inttoptr(address, kind.as_pointer())


def call(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> None:
    """One of the unit's instructions."""
    if not COMPILED:
        return  # compiled with the rest, and never run
    kind = ir.FunctionType(ir.VoidType(), [one.type for one in arguments])
    builder.call(builder.module.declare_intrinsic(f"llvm.x86.{name}", (), kind), arguments)


@njit(nogil=True, cache=True)
def multiply_tiles(x: Integers, scales: Floats, weight: Integers, weight_scales: Floats, out: Floats) -> None:
    """``out [tokens, rows]`` = ``x [tokens, columns]`` times ``weight [rows, columns]`` in tiles."""
    rows, columns = weight.shape
    halves = _halves(x)
    sums, share = lined_up(STRIPS * TILE_ROWS * TILE_COLUMNS), rows // STRIPS
    configure(LAYOUT.ctypes.data)
    for first in range(0, share, TILE_ROWS):
        for group in range(len(halves)):
            begin = group * TILE_TOKENS
            some, factors = out[begin : begin + TILE_TOKENS], scales[begin : begin + TILE_TOKENS]
            address = weight[first].ctypes.data
            multiply_strips(halves[group].ctypes.data, address, share * columns, columns, sums.ctypes.data)
            here, rest = weight_scales[first:].ctypes.data, some[:, first:].ctypes.data
            scale_strips(sums.ctypes.data, len(some), factors.ctypes.data, here, share, rest, out.strides[0])
    release()


@njit(nogil=True, cache=True)
def _halves(x: Integers) -> NDArray[np.int8]:
    """Tokens ``[tokens, columns]`` of 12 bits in groups ``[groups, high and low of TILE_TOKENS, columns]``."""
    tokens, columns = x.shape
    shape = (-(-tokens // TILE_TOKENS), 2 * TILE_TOKENS, columns)
    halves = lined_up(shape[0] * shape[1] * shape[2]).reshape(shape)
    halves[:] = 0
    for token in range(tokens):
        group, place = token // TILE_TOKENS, token % TILE_TOKENS
        for column in range(columns):
            halves[group, place, column] = np.int8(x[token, column] >> 4)
            halves[group, TILE_TOKENS + place, column] = np.int8(x[token, column] & 15)
    return halves
