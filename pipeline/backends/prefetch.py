"""Weights brought into the core's cache ahead of their use, for compiled loops.

The processor does so by itself only up to the end of a page, and waits for memory at the next one: a third of the
time that a step took (docs/performance.md).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

AHEAD = 4096  # bytes: as far as a core's reads are on their way
LINE = 64  # bytes
PIECE = 512  # bytes: what a head keeps of four tokens, of 64 numbers each

_BYTE, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def prefetch(builder: ir.IRBuilder, address: ir.Value, size: int = LINE, ahead: int = AHEAD) -> None:
    """Ask for the lines ahead of so many bytes at this address; past the end of an array nothing happens."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT32, _INT32, _INT32])
    ask = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE.as_pointer()], kind)
    for line in range(ahead, ahead + size, LINE):
        place = builder.inttoptr(builder.add(address, _INT64(line)), _BYTE.as_pointer())
        builder.call(ask, [place, _INT32(0), _INT32(3), _INT32(1)])  # to read, again and again, data


def _ask_ahead(_typing: Any, address: Any) -> Any:
    def build(
        context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[ir.Value, ...]
    ) -> ir.Value | None:
        prefetch(builder, arguments[0], PIECE)
        return context.get_dummy_value()

    return types.none(address), build


# ``ask_ahead(address)``: ask for the PIECE ahead of this address.
ask_ahead: Any = intrinsic(_ask_ahead)
