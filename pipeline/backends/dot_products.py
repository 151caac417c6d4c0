"""Dot products of int16 with int8 in the processor's own instructions, for compiled loops.

LLVM finds the instruction that multiplies int16 and adds them in pairs only in the plainest loop, and then at half
of the width. Here it is named, and several rows share each weight that is loaded. Sums of integers are exact, so
every processor and every number of rows gives the same.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pipeline.backends.prefetch import prefetch

_FEATURES = llvmlite.binding.get_host_cpu_features()
_INT8, _INT16, _INT32, _INT64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))

# How many products are made at once, by what, and in how many sums: AVX-512 (LLVM fuses it with the addition where
# there is VNNI), AVX2, or whatever LLVM makes of it.
if _FEATURES.get("avx512bw"):
    LANES, _PAIRS = 32, "llvm.x86.avx512.pmaddw.d.512"
elif _FEATURES.get("avx2"):
    LANES, _PAIRS = 16, "llvm.x86.avx2.pmadd.wd"
else:
    LANES, _PAIRS = 8, ""
_SUMS = ir.VectorType(_INT32, LANES // 2 if _PAIRS else LANES)


def _dots(tokens: int, rows: int) -> Any:
    """A function for compiled loops, ``(x, weight, columns)``, to the sums of every token with every row.

    ``x``: the address of ``tokens`` int16 rows of so many columns, one after the other; ``weight``: that of
    ``rows`` int8 rows. The columns are a multiple of LANES.
    """

    @intrinsic
    def dots(_typing: Any, _x: Any, _weight: Any, _columns: Any) -> Any:
        return types.UniTuple(types.int32, tokens * rows)(types.intp, types.intp, types.intp), build

    def build(context: Any, builder: ir.IRBuilder, signature: Any, arguments: tuple[ir.Value, ...]) -> Any:
        x, weight, columns = arguments
        sums = [cgutils.alloca_once(builder, _SUMS) for _ in range(tokens * rows)]
        for one in sums:
            builder.store(_SUMS(None), one)
        with cgutils.for_range_slice(builder, _INT64(0), columns, _INT64(LANES), _INT64) as (column, _):
            lefts = [_loaded(builder, x, token, column, columns, _INT16) for token in range(tokens)]
            # The rows lie one after the other: so every line of them is asked for once.
            prefetch(builder, builder.add(weight, builder.mul(column, _INT64(rows))), rows * LANES)
            rights = [_loaded(builder, weight, row, column, columns, _INT8) for row in range(rows)]
            pairs = product(lefts, (builder.sext(one, ir.VectorType(_INT16, LANES)) for one in rights))
            for one, (left, right) in zip(sums, pairs, strict=True):
                builder.store(builder.add(builder.load(one), _products(builder, left, right)), one)
        loaded = [builder.load(one) for one in sums]
        fours = (loaded[first : first + 4] for first in range(0, len(loaded), 4))
        totals = [total for four in fours for total in _totals(builder, four)]
        return context.make_tuple(builder, signature.return_type, totals)

    return dots


def _loaded(
    builder: ir.IRBuilder, array: ir.Value, row: int, column: ir.Value, columns: ir.Value, integer: ir.IntType
) -> ir.Value:
    """The next lanes of a row of the array at this address."""
    place = builder.add(builder.mul(columns, _INT64(row)), column)
    address = builder.add(array, builder.mul(place, _INT64(integer.width // 8)))
    pointer = builder.inttoptr(address, ir.VectorType(integer, LANES).as_pointer())
    return builder.load(pointer, align=integer.width // 8)


def _products(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    if not _PAIRS:
        return builder.mul(builder.sext(left, _SUMS), builder.sext(right, _SUMS))
    pairs = builder.module.declare_intrinsic(_PAIRS, (), ir.FunctionType(_SUMS, [left.type, left.type]))
    return builder.call(pairs, [left, right])


def _totals(builder: ir.IRBuilder, vectors: list[ir.Value]) -> list[ir.Value]:
    """What each of four vectors adds up to, in a third of the instructions of one by one."""
    one, two, three, four = vectors
    left, right = _interleaved(builder, one, two, 1), _interleaved(builder, three, four, 1)
    sums = _interleaved(builder, left, right, 2)
    while (half := sums.type.count // 2) >= 4:
        parts = list(range(half)), list(range(half, 2 * half))
        sums = builder.add(*(_shuffled(builder, sums, sums, lanes) for lanes in parts))
    return [builder.extract_element(sums, _INT32(place)) for place in range(4)]


def _interleaved(builder: ir.IRBuilder, left: ir.Value, right: ir.Value, width: int) -> ir.Value:
    """The halves of every four lanes added up, so many lanes of the left's beside so many of the right's."""
    count = left.type.count
    halves = [
        [
            side * count + four + half + unit + lane
            for four in range(0, count, 4)
            for unit in range(0, 2, width)
            for side in (0, 1)
            for lane in range(width)
        ]
        for half in (0, 2)
    ]
    return builder.add(*(_shuffled(builder, left, right, lanes) for lanes in halves))


def _shuffled(builder: ir.IRBuilder, left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
    return builder.shuffle_vector(left, right, ir.VectorType(_INT32, len(lanes))(lanes))


# A sum takes several cycles to be ready for the next addition, so at least so many are kept going.
ONE_ROWS, FOUR_ROWS = 4, 2
one_token = _dots(1, ONE_ROWS)
four_tokens = _dots(4, FOUR_ROWS)
