"""Whisper's encoder (Radford et al. 2022): all its layers in one call of compiled loops, products in bfloat16."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.backends.bfloat16_tiles import BLOCK, TILE_COLUMNS, TILE_ROWS, strips
from pipeline.backends.bfloats import Bfloats, rounded
from pipeline.backends.compiler import njit
from pipeline.backends.kernels import Floats
from pipeline.backends.tiled_attention import (
    Tiled,
    in_tiles,
    multiplied,
    put_keys,
    put_rows,
    put_values,
    round_row,
    see,
)
from pipeline.backends.tiles import LAYOUT, configure, lined_up_floats, release
from pipeline.backends.whisper_kernels import Norm, bent, normed


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
    once = lined_up_floats(steps, first.bias.shape[1])
    _multiply_bent(_threes(features, 1), first, once)
    x = lined_up_floats(frames, second.bias.shape[1])
    _multiply_bent(_threes(once, 2), second, x)
    x += weights.positions[:frames]
    return x


@njit(nogil=True, cache=True)
def _multiply_bent(x: Bfloats, linear: Tiled, out: Floats) -> None:
    bias = multiplied(x, linear, 0, 0, out)
    for row in range(len(out)):
        one = out[row]
        for column in range(len(one)):
            one[column] = bent(one[column] + bias[column])


@njit(nogil=True, cache=True)
def _threes(x: Floats, stride: int) -> Bfloats:
    """Every row of ``x [rows, channels]``, or every second, in one row with its neighbours, in tiles."""
    rows, channels = x.shape
    columns = -(-3 * channels // TILE_COLUMNS) * TILE_COLUMNS
    threes = lined_up_floats(rows // stride, columns)
    threes[:] = 0
    for row in range(rows // stride):
        for place in range(3):
            at = row * stride + place - 1
            if 0 <= at < rows:
                threes[row, place * channels : (place + 1) * channels] = x[at]
    return in_tiles(threes)


@njit(nogil=True, cache=True)
def _add(x: Floats, y: Bfloats, linear: Tiled, layer: int) -> None:
    """``x`` += ``y`` times one layer's weights, and its biases."""
    added = lined_up_floats(x.shape[0], BLOCK)
    for begin in range(0, x.shape[1], BLOCK):
        bias = multiplied(y, linear, layer, begin, added)
        for row in range(len(x)):
            one, more = x[row][begin : begin + BLOCK], added[row]
            for column in range(BLOCK):
                one[column] += more[column] + bias[column]


@njit(nogil=True, cache=True)
def _bend(x: Bfloats, linear: Tiled, layer: int, out: Bfloats) -> None:
    """``x`` times one layer's weights, through GELU."""
    wide = lined_up_floats(out.shape[0] * TILE_ROWS, BLOCK)
    for tile in range(out.shape[1]):
        bias = multiplied(x, linear, layer, tile * BLOCK, wide)
        for row in range(len(wide)):
            one, place = wide[row], out[row // TILE_ROWS, tile, row % TILE_ROWS]
            for column in range(BLOCK):
                place[column] = rounded(bent(one[column] + bias[column]))


@njit(nogil=True, cache=True)
def _attend(x: Bfloats, weights: Weights, layer: int, mixed: Bfloats) -> None:
    """What every frame's heads see of all frames."""
    frames, width = x.shape[0] * TILE_ROWS, mixed.shape[1] * TILE_COLUMNS
    head_width = width // weights.heads
    qkv = lined_up_floats(frames, BLOCK)
    queries, keys = strips(frames, head_width), strips(frames, head_width)
    values = strips(head_width, frames)
    for head in range(weights.heads):
        for tile in range(head_width // BLOCK):
            begin = head * head_width + tile * BLOCK
            put_rows(qkv, multiplied(x, weights.qkv, layer, begin, qkv), queries, tile)
            put_keys(qkv, multiplied(x, weights.qkv, layer, width + begin, qkv), keys, tile)
            put_values(qkv, multiplied(x, weights.qkv, layer, 2 * width + begin, qkv), values, tile)
        see(queries, keys, values, mixed, head * head_width // TILE_COLUMNS, frames)


@njit(nogil=True, cache=True)
def _put_normed(x: Floats, norm: Norm, layer: int, tiled: Bfloats) -> None:
    for begin in range(0, len(x), TILE_ROWS):
        some = normed(x[begin : begin + TILE_ROWS], norm, layer)
        for row in range(TILE_ROWS):
            round_row(some[row], tiled[begin // TILE_ROWS, :, row])
