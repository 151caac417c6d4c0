"""Attention in tiles of bfloat16: what rows of queries see of many keys and values, for compiled loops.

Keys and values are laid out as weights: frames are the rows of a head's keys, and the columns of its values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.backends.bfloat16_tiles import BLOCK, TILE_COLUMNS, TILE_ROWS, multiply, strips
from pipeline.backends.bfloats import Bfloats, rounded
from pipeline.backends.compiler import FAST, njit
from pipeline.backends.kernels import Floats, exponential, highest
from pipeline.backends.tiles import lined_up_floats


class Tiled(NamedTuple):
    """Weights in tiles ``[layers, strips, tiles, 16, 32]`` and biases ``[layers, rows]``."""

    weight: Bfloats
    bias: Floats


@njit(nogil=True, cache=True)
def multiplied(x: Bfloats, linear: Tiled, layer: int, begin: int, out: Floats) -> Floats:
    """Sets ``out`` to ``x`` times so many weights, from one on; returns the biases that it lacks."""
    multiply(x, linear.weight[layer, begin // TILE_ROWS :], out)
    bias: Floats = linear.bias[layer][begin : begin + out.shape[1]]
    return bias


@njit(nogil=True, cache=True)
def in_tiles(x: Floats) -> Bfloats:
    """Rows ``[rows, columns]`` as ``[strips, tiles, 16, 32]``."""
    tiled = strips(*x.shape)
    for row in range(len(x)):
        round_row(x[row], tiled[row // TILE_ROWS, :, row % TILE_ROWS])
    return tiled


@njit(nogil=True, cache=True)
def round_row(x: Floats, tiled: Bfloats) -> None:
    """``x`` as a row of the tiles of one strip, ``[tiles, 32]``."""
    for tile in range(len(tiled)):
        some, place = x[tile * TILE_COLUMNS : (tile + 1) * TILE_COLUMNS], tiled[tile]
        for column in range(TILE_COLUMNS):
            place[column] = rounded(some[column])


@njit(nogil=True, cache=True)
def put_rows(x: Floats, bias: Floats, tiled: Bfloats, tile: int) -> None:
    """``x [rows, BLOCK]`` and its biases as a tile of every strip."""
    for row in range(len(x)):
        one, place = x[row], tiled[row // TILE_ROWS, tile, row % TILE_ROWS]
        for column in range(TILE_COLUMNS):
            place[column] = rounded(one[column] + bias[column])


@njit(nogil=True, cache=True)
def put_keys(x: Floats, bias: Floats, tiled: Bfloats, tile: int) -> None:
    """The same as tiles of weights: frames are their rows."""
    for row in range(len(x)):
        one, place = x[row], tiled[row // TILE_ROWS, tile, :, 2 * (row % TILE_ROWS) :]
        for pair in range(TILE_ROWS):
            place[pair, 0] = rounded(one[2 * pair] + bias[2 * pair])
            place[pair, 1] = rounded(one[2 * pair + 1] + bias[2 * pair + 1])


@njit(nogil=True, cache=True)
def put_values(x: Floats, bias: Floats, tiled: Bfloats, tile: int) -> None:
    """The same as tiles of weights: frames are their columns, two of them side by side."""
    pairs, half_width = tiled.view(np.uint32), BLOCK // 2
    for row in range(0, len(x), 2):
        for half in range(2):
            columns = slice(half * half_width, (half + 1) * half_width)
            one, two, more = x[row][columns], x[row + 1][columns], bias[columns]
            place = pairs[2 * tile + half, row // TILE_COLUMNS, row % TILE_COLUMNS // 2]
            for column in range(half_width):
                left, right = rounded(one[column] + more[column]), rounded(two[column] + more[column])
                place[column] = np.uint32(left) | np.uint32(right) << np.uint32(16)


@njit(nogil=True, cache=True)
def see(queries: Bfloats, keys: Bfloats, values: Bfloats, mixed: Bfloats, first_tile: int, rows: int) -> None:
    """One head: the softmax of its queries' products with the keys, times the values, for so many rows.

    ``mixed``: where it goes, from one tile of every strip on.
    """
    frames, head_width = keys.shape[0] * TILE_ROWS, values.shape[0] * TILE_ROWS
    scores, seen = lined_up_floats(BLOCK, frames), lined_up_floats(BLOCK, head_width)
    shares = strips(BLOCK, frames)
    root, tiles = np.float32(1 / np.sqrt(head_width)), head_width // TILE_COLUMNS
    for begin in range(0, queries.shape[0], 2):
        some = min(BLOCK, rows - begin * TILE_ROWS)
        multiply(queries[begin : begin + 2], keys, scores)
        factors = _share(scores[:some], root, shares)
        multiply(shares, values, seen)
        for row in range(some):
            one, factor = seen[row], factors[row]
            for column in range(head_width):
                one[column] *= factor
            round_row(one, mixed[begin + row // TILE_ROWS, first_tile : first_tile + tiles, row % TILE_ROWS])


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _share(scores: Floats, root: np.float32, shares: Bfloats) -> Floats:
    """The exponentials of every row's scores below its largest, in tiles; returns what makes 1 of their totals."""
    factors = np.empty(len(scores), np.float32)
    for row in range(len(scores)):
        some = scores[row]
        largest, total = highest(some), np.float32(0)
        for column in range(len(some)):
            some[column] = exponential((some[column] - largest) * root)
            total += some[column]
        factors[row] = np.float32(1) / total
        round_row(some, shares[row // TILE_ROWS, :, row % TILE_ROWS])
    return factors
