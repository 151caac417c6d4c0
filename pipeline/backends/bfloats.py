"""Numbers of bfloat16 in compiled loops. numba knows none: here they are their bits, uint16."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.backends.compiler import njit

Bfloats = NDArray[np.uint16]


@njit(nogil=True, cache=True)
def rounded(x: np.float32) -> np.uint16:
    """The nearest bfloat16; of two as near the one further from 0."""
    return np.uint16((np.uint32(np.float32(x).view(np.uint32)) + np.uint32(0x8000)) >> np.uint32(16))


def _widened(_typing: Any, number: Any) -> Any:
    def build(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[ir.Value, ...]) -> Any:
        bits = builder.shl(builder.zext(arguments[0], ir.IntType(32)), ir.IntType(32)(16))
        return builder.bitcast(bits, ir.FloatType())

    def keep(_context: Any, _builder: Any, _signature: Any, arguments: tuple[ir.Value, ...]) -> Any:
        return arguments[0]

    return types.float32(number), build if number == types.uint16 else keep


# ``widened(number)``: a bfloat16 as float32, which a float32 is already.
widened: Any = intrinsic(_widened)
