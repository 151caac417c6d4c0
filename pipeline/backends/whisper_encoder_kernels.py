"""Whisper's encoder (Radford et al. 2022): all its layers in one call of compiled loops, products in bfloat16."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.backends.bfloat16_tiles import BLOCK, TILE_COLUMNS, TILE_ROWS, multiply, strips
from pipeline.backends.bfloats import Bfloats, rounded
from pipeline.backends.compiler import FAST, njit
from pipeline.backends.kernels import Floats, exponential, highest
from pipeline.backends.tiles import LAYOUT, configure, release
from pipeline.backends.whisper_kernels import Norm, bent, normed


class Tiled(NamedTuple):
    """Weights in tiles ``[layers, strips, tiles, 16, 32]`` and biases ``[layers, rows]``."""

    weight: Bfloats
    bias: Floats


class Weights(NamedTuple):
    """An encoder's weights, all layers of a kind in one array; ``bands``: how many features it takes."""

    bands: int
    first_convolution: Tiled
    second_convolution: Tiled
    positions: Floats
    attention_norm: Norm
    qkv: Tiled
    out: Tiled
    mlp_norm: Norm
    up: Tiled
    down: Tiled
    norm: Norm
    heads: int


@njit(nogil=True, cache=True)
def encode(features: Floats, weights: Weights) -> Floats:
    """Features ``[2 frames, bands]`` of 10 ms as ``[frames, width]``; the frames are a multiple of BLOCK."""
    configure(LAYOUT.ctypes.data)
    x = _convolved(features, weights)
    tiled, mixed = strips(*x.shape), strips(*x.shape)
    wide = strips(x.shape[0], weights.up.bias.shape[1])
    for layer in range(weights.qkv.bias.shape[0]):
        _put_normed(x, weights.attention_norm, layer, tiled)
        _attend(tiled, weights, layer, mixed)
        _add(x, mixed, weights.out, layer)
        _put_normed(x, weights.mlp_norm, layer, tiled)
        _bend(tiled, weights.up, layer, wide)
        _add(x, wide, weights.down, layer)
    release()
    return normed(x, weights.norm, 0)


@njit(nogil=True, cache=True)
def _convolved(features: Floats, weights: Weights) -> Floats:
    first, second = weights.first_convolution, weights.second_convolution
    steps, frames = len(features), len(features) // 2
    once = np.empty((steps, first.bias.shape[1]), np.float32)
    _multiply_bent(_threes(features, 1), first, once)
    x = np.empty((frames, second.bias.shape[1]), np.float32)
    _multiply_bent(_threes(once, 2), second, x)
    x += weights.positions[:frames]
    return x


@njit(nogil=True, cache=True)
def _multiply_bent(x: Bfloats, linear: Tiled, out: Floats) -> None:
    bias = _multiplied(x, linear, 0, 0, out)
    for row in range(len(out)):
        one = out[row]
        for column in range(len(one)):
            one[column] = bent(one[column] + bias[column])


@njit(nogil=True, cache=True)
def _threes(x: Floats, stride: int) -> Bfloats:
    """Every row of ``x [rows, channels]``, or every second, in one row with its neighbours, in tiles."""
    rows, channels = x.shape
    columns = -(-3 * channels // TILE_COLUMNS) * TILE_COLUMNS
    threes = np.zeros((rows // stride, columns), np.float32)
    for row in range(rows // stride):
        for place in range(3):
            at = row * stride + place - 1
            if 0 <= at < rows:
                threes[row, place * channels : (place + 1) * channels] = x[at]
    return in_tiles(threes)


@njit(nogil=True, cache=True)
def in_tiles(x: Floats) -> Bfloats:
    """Rows ``[rows, columns]`` as ``[strips, tiles, 16, 32]``."""
    tiled = strips(*x.shape)
    for row in range(len(x)):
        _round_row(x[row], tiled[row // TILE_ROWS, :, row % TILE_ROWS])
    return tiled


@njit(nogil=True, cache=True)
def _add(x: Floats, y: Bfloats, linear: Tiled, layer: int) -> None:
    """``x`` += ``y`` times one layer's weights, and its biases."""
    added = np.empty((x.shape[0], BLOCK), np.float32)
    for begin in range(0, x.shape[1], BLOCK):
        bias = _multiplied(y, linear, layer, begin, added)
        for row in range(len(x)):
            one, more = x[row][begin : begin + BLOCK], added[row]
            for column in range(BLOCK):
                one[column] += more[column] + bias[column]


@njit(nogil=True, cache=True)
def _bend(x: Bfloats, linear: Tiled, layer: int, out: Bfloats) -> None:
    """``x`` times one layer's weights, through GELU."""
    wide = np.empty((out.shape[0] * TILE_ROWS, BLOCK), np.float32)
    for tile in range(out.shape[1]):
        bias = _multiplied(x, linear, layer, tile * BLOCK, wide)
        for row in range(len(wide)):
            one, place = wide[row], out[row // TILE_ROWS, tile, row % TILE_ROWS]
            for column in range(BLOCK):
                place[column] = rounded(bent(one[column] + bias[column]))


@njit(nogil=True, cache=True)
def _multiplied(x: Bfloats, linear: Tiled, layer: int, begin: int, out: Floats) -> Floats:
    """Sets ``out`` to ``x`` times so many weights, from one on; returns the biases that it lacks."""
    multiply(x, linear.weight[layer, begin // TILE_ROWS :], out)
    bias: Floats = linear.bias[layer][begin : begin + out.shape[1]]
    return bias


@njit(nogil=True, cache=True)
def _attend(x: Bfloats, weights: Weights, layer: int, mixed: Bfloats) -> None:
    """What every frame's heads see of all frames."""
    frames, width = x.shape[0] * TILE_ROWS, mixed.shape[1] * TILE_COLUMNS
    head_width = width // weights.heads
    qkv = np.empty((frames, BLOCK), np.float32)
    queries, keys = strips(frames, head_width), strips(frames, head_width)
    values = strips(head_width, frames)
    for head in range(weights.heads):
        for tile in range(head_width // BLOCK):
            begin = head * head_width + tile * BLOCK
            _put_rows(qkv, _multiplied(x, weights.qkv, layer, begin, qkv), queries, tile)
            _put_keys(qkv, _multiplied(x, weights.qkv, layer, width + begin, qkv), keys, tile)
            _put_values(qkv, _multiplied(x, weights.qkv, layer, 2 * width + begin, qkv), values, tile)
        _see(queries, keys, values, mixed, head * head_width // TILE_COLUMNS)


@njit(nogil=True, cache=True)
def _put_rows(x: Floats, bias: Floats, tiled: Bfloats, tile: int) -> None:
    """``x [rows, BLOCK]`` and its biases as a tile of every strip."""
    for row in range(len(x)):
        one, place = x[row], tiled[row // TILE_ROWS, tile, row % TILE_ROWS]
        for column in range(TILE_COLUMNS):
            place[column] = rounded(one[column] + bias[column])


@njit(nogil=True, cache=True)
def _put_keys(x: Floats, bias: Floats, tiled: Bfloats, tile: int) -> None:
    """The same as tiles of weights: frames are their rows."""
    for row in range(len(x)):
        one, place = x[row], tiled[row // TILE_ROWS, tile, :, 2 * (row % TILE_ROWS) :]
        for pair in range(TILE_ROWS):
            place[pair, 0] = rounded(one[2 * pair] + bias[2 * pair])
            place[pair, 1] = rounded(one[2 * pair + 1] + bias[2 * pair + 1])


@njit(nogil=True, cache=True)
def _put_values(x: Floats, bias: Floats, tiled: Bfloats, tile: int) -> None:
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
def _round_row(x: Floats, tiled: Bfloats) -> None:
    """``x`` as a row of the tiles of one strip, ``[tiles, 32]``."""
    for tile in range(len(tiled)):
        some, place = x[tile * TILE_COLUMNS : (tile + 1) * TILE_COLUMNS], tiled[tile]
        for column in range(TILE_COLUMNS):
            place[column] = rounded(some[column])


@njit(nogil=True, cache=True)
def _see(queries: Bfloats, keys: Bfloats, values: Bfloats, mixed: Bfloats, first_tile: int) -> None:
    """One head: the softmax of its queries' products with the keys, times the values."""
    frames, head_width = queries.shape[0] * TILE_ROWS, values.shape[0] * TILE_ROWS
    scores, seen = np.empty((BLOCK, frames), np.float32), np.empty((BLOCK, head_width), np.float32)
    shares = strips(BLOCK, frames)
    root, tiles = np.float32(1 / np.sqrt(head_width)), head_width // TILE_COLUMNS
    for begin in range(0, queries.shape[0], 2):
        multiply(queries[begin : begin + 2], keys, scores)
        factors = _share(scores, root, shares)
        multiply(shares, values, seen)
        for row in range(BLOCK):
            one, factor = seen[row], factors[row]
            for column in range(head_width):
                one[column] *= factor
            _round_row(one, mixed[begin + row // TILE_ROWS, first_tile : first_tile + tiles, row % TILE_ROWS])


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
        _round_row(some, shares[row // TILE_ROWS, :, row % TILE_ROWS])
    return factors


@njit(nogil=True, cache=True)
def _put_normed(x: Floats, norm: Norm, layer: int, tiled: Bfloats) -> None:
    for begin in range(0, len(x), TILE_ROWS):
        some = normed(x[begin : begin + TILE_ROWS], norm, layer)
        for row in range(TILE_ROWS):
            _round_row(some[row], tiled[begin // TILE_ROWS, :, row])


@njit(nogil=True, cache=True)
def hear(encoded: Floats, cross: Tiled, heads: int) -> tuple[Floats, Floats]:
    """A decoder's keys and values ``[layers, heads, frames, head width]`` of ``encoded [frames, width]``.

    The frames are a multiple of BLOCK; every layer's weights and biases are those of its keys, then of its values.
    """
    shape = cross.bias.shape[0], heads, encoded.shape[0], cross.bias.shape[1] // 2 // heads
    keys, values = np.empty(shape, np.float32), np.empty(shape, np.float32)
    x = in_tiles(encoded)
    configure(LAYOUT.ctypes.data)
    for layer in range(shape[0]):
        for head in range(heads):
            _hear_head(x, cross, layer, head, keys[layer, head])
            _hear_head(x, cross, layer, heads + head, values[layer, head])
    release()
    return keys, values


@njit(nogil=True, cache=True)
def _hear_head(x: Bfloats, linear: Tiled, layer: int, head: int, out: Floats) -> None:
    bias = _multiplied(x, linear, layer, head * out.shape[1], out)
    for row in range(len(out)):
        one = out[row]
        for column in range(len(one)):
            one[column] += bias[column]
