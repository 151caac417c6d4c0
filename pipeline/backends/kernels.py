"""The arithmetic that the lean decoders share: plain loops, which numba compiles to calls without Python in them.

A token is hundreds of small operations. Called one by one from Python they cost as much as the weights do, and
each waits for the interpreter's lock: a step took twice as long next to a thread that was busy for a tenth of the
time. Here the lock is let go once a step.

Products are integer: weights have 8 bits and a scale a row, activations 12 and a scale a token. Sums of integers
are exact in any order, so a token's result cannot depend on how many others were computed with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.backends.bfloats import Bfloats, widened
from pipeline.backends.compiler import FAST, njit
from pipeline.backends.dot_products import FOUR_ROWS, ONE_ROWS, four_tokens, one_token
from pipeline.backends.prefetch import ask_ahead
from pipeline.backends.tiles import fits, in_tiles, multiply_tiles, place_in_tiles, usable

Floats = NDArray[np.float32]
Ints = NDArray[np.int8] | NDArray[np.int16]
Kept = Floats | Bfloats  # keys and values

FINEST_LEVELS = 2047  # 12 bits: finer than bfloat16
WEIGHT_LEVELS = 127
# Weights are read from so many places at a time: one core's prefetchers follow several streams faster than one.
STREAMS = 4
# With many tokens, so much of the weights is read from memory once and then for every token from the core's cache.
BLOCK_BYTES = 2**18
TOGETHER = 4


class Packed(NamedTuple):
    """Weights ``[layers, rows, columns]`` as int8, with one scale a row; ``tiled``: in the order of tiles.py."""

    values: NDArray[np.int8]
    scales: Floats
    tiled: bool = False


def pack(layers: list[Floats], *, tiled: bool = False) -> Packed:
    """Symmetric int8 with one scale a row, of each layer's weights ``[rows, columns]``.

    ``tiled``: in tiles where the processor has a unit for them, and if they fit.
    """
    packed = [_pack(layer) for layer in layers]
    values, scales = (np.stack(each) for each in zip(*packed, strict=True))
    tiled = tiled and usable() and fits(*values.shape[1:])
    return Packed(in_tiles(values) if tiled else values, scales, tiled)


def _pack(weight: Floats) -> tuple[NDArray[np.int8], Floats]:
    scales = np.maximum(np.abs(weight).max(axis=1) / WEIGHT_LEVELS, 1e-12).astype(np.float32)
    return np.rint(weight / scales[:, None]).astype(np.int8), scales


@njit(nogil=True, cache=True)
def unpack_row(weight: Packed, layer: int, row: int, out: Floats) -> None:
    """``out [columns]``: one row of a layer's weights."""
    values, scale = weight.values[layer], weight.scales[layer, row]
    for column in range(len(out)):
        at = place_in_tiles(row, column, len(out)) if weight.tiled else row * len(out) + column
        out[column] = values.ravel()[at] * scale


@njit(nogil=True, cache=True)
def project(x: Floats, weight: Packed, layer: int, out: Floats) -> None:
    """``out [tokens, rows]`` = ``x [tokens, columns]`` times one layer's weights."""
    quantised, scales = quantised_rows(x)
    if weight.tiled:
        multiply_tiles(quantised, scales, weight.values[layer], weight.scales[layer], out)
    else:
        multiply(quantised, scales, weight.values[layer], weight.scales[layer], out)


@njit(nogil=True, cache=True)
def multiply(x: Ints, scales: Floats, weight: Ints, weight_scales: Floats, out: Floats) -> None:
    """``out [tokens, rows]`` = ``x [tokens, columns]`` times ``weight [rows, columns]``, each with its scales.

    The rows are ONE_ROWS or more, the columns a multiple of LANES.
    """
    tokens, rows = out.shape
    fours = tokens // TOGETHER * TOGETHER
    blocks = 1 if tokens <= TOGETHER else -(-weight.size // BLOCK_BYTES)
    for block in range(blocks):
        begin, end = rows * block // blocks, rows * (block + 1) // blocks
        some, some_scales, here = weight[begin:end], weight_scales[begin:end], out[:, begin:end]
        for token in range(0, fours, TOGETHER):
            _multiply_four(x[token:], scales[token:], some, some_scales, here[token:])
        for token in range(fours, tokens):
            _multiply_one(x[token], scales[token], some, some_scales, here[token])


@njit(nogil=True, cache=True)
def _multiply_one(x: Ints, scale: float, weight: Ints, weight_scales: Floats, out: Floats) -> None:
    rows, columns = weight.shape
    stride = -(-rows // (STREAMS * ONE_ROWS)) * ONE_ROWS
    for first in range(0, stride, ONE_ROWS):
        for place in range(first, rows, stride):
            row = min(place, rows - ONE_ROWS)
            totals = one_token(x.ctypes.data, weight[row].ctypes.data, columns)
            for extra in range(ONE_ROWS):
                out[row + extra] = np.float32(totals[extra]) * scale * weight_scales[row + extra]


@njit(nogil=True, cache=True)
def _multiply_four(x: Ints, scales: Floats, weight: Ints, weight_scales: Floats, out: Floats) -> None:
    rows, columns = weight.shape
    stride = -(-rows // (STREAMS * FOUR_ROWS)) * FOUR_ROWS
    for first in range(0, stride, FOUR_ROWS):
        for place in range(first, rows, stride):
            row = min(place, rows - FOUR_ROWS)
            totals = four_tokens(x.ctypes.data, weight[row].ctypes.data, columns)
            for token in range(TOGETHER):
                for extra in range(FOUR_ROWS):
                    total = np.float32(totals[token * FOUR_ROWS + extra])
                    out[token, row + extra] = total * scales[token] * weight_scales[row + extra]


@njit(nogil=True, cache=True)
def quantised_rows(x: Floats) -> tuple[Ints, Floats]:
    """Each row as integers and a scale; as many levels as an int32 can sum over the columns."""
    tokens, columns = x.shape
    levels = np.float32(min(FINEST_LEVELS, np.iinfo(np.int32).max // (WEIGHT_LEVELS * columns)))
    integers, scales = np.empty((tokens, columns), np.int16), np.empty(tokens, np.float32)
    for token in range(tokens):
        largest = max(_largest(x[token]), np.float32(1e-12))
        scales[token] = largest / levels
        steps = levels / largest
        for column in range(columns):
            integers[token, column] = np.int16(np.rint(x[token, column] * steps))
    return integers, scales


@njit(nogil=True, cache=True)
def _largest(x: Floats) -> np.float32:
    """The largest magnitude, found in vectors: without their signs, floats are ordered like their bits."""
    bits, largest = x.view(np.int32), np.int32(0)
    for column in range(len(bits)):
        largest = max(largest, bits[column] & np.int32(0x7FFFFFFF))
    return np.int32(largest).view(np.float32)


@njit(nogil=True, cache=True)
def highest(x: Floats) -> np.float32:
    """The largest number, found in vectors: flipped below zero, floats are ordered like their bits."""
    bits, largest = x.view(np.int32), np.int32(np.iinfo(np.int32).min)
    for place in range(len(bits)):
        largest = max(largest, bits[place] ^ ((bits[place] >> np.int32(31)) & np.int32(0x7FFFFFFF)))
    largest = np.int32(largest)
    return np.int32(largest ^ ((largest >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)


@njit(nogil=True, cache=True)
def attend(
    queries: Floats, seen: tuple[int, int], keys: Kept, values: Kept, log_weights: Floats, out: Floats
) -> None:
    """What one token's heads see of the places ``seen``, from and to; neighbouring heads share a key head."""
    kv_heads, _, width = keys.shape
    heads, (first, end) = out.shape[0] // width, seen
    shares = np.empty(end - first, np.float32)
    for head in range(heads):
        shared, at = head * kv_heads // heads, head * width
        _look(queries[at : at + width], keys[shared, first:end], log_weights, shares)
        _mix(shares, values[shared, first:end], out[at : at + width])


@njit(nogil=True, cache=True, fastmath=FAST)
def _look(query: Floats, keys: Kept, log_weights: Floats, shares: Floats) -> None:
    """The softmax of the query's products with ``keys [positions, head width]``, the first of them weighted."""
    positions, width = keys.shape
    root = np.float32(1 / np.sqrt(width))
    fours = positions // 4 * 4
    for first in range(0, fours, 4):
        one = two = three = four = np.float32(0)
        ask_ahead(keys[first].ctypes.data)
        for column in range(width):
            one += query[column] * widened(keys[first, column])
            two += query[column] * widened(keys[first + 1, column])
            three += query[column] * widened(keys[first + 2, column])
            four += query[column] * widened(keys[first + 3, column])
        shares[first], shares[first + 1], shares[first + 2], shares[first + 3] = one, two, three, four
    for position in range(fours, positions):
        score = np.float32(0)
        for column in range(width):
            score += query[column] * widened(keys[position, column])
        shares[position] = score
    shares *= root
    for position in range(len(log_weights)):
        shares[position] += log_weights[position]
    largest, total = highest(shares), np.float32(0)
    for position in range(positions):
        shares[position] = exponential(shares[position] - largest)
    for position in range(positions):
        total += shares[position]
    shares /= total


@njit(nogil=True, cache=True, fastmath=FAST)
def exponential(x: np.float32) -> np.float32:
    """e to the power of ``x <= 0``, to four digits and in vectors, which the library's is not."""
    one = np.float32(1)
    y = np.float32(max(x, np.float32(-80)) / np.float32(256))  # small enough for five terms of the series
    power = one + y * (one + y * (np.float32(1 / 2) + y * (np.float32(1 / 6) + y * np.float32(1 / 24))))
    for _ in range(8):
        power *= power
    return power


@njit(nogil=True, cache=True, fastmath=FAST)
def _mix(shares: Floats, values: Kept, out: Floats) -> None:
    positions, width = values.shape
    fours = positions // 4 * 4
    out[:] = 0
    for first in range(0, fours, 4):
        one, two, three, four = shares[first], shares[first + 1], shares[first + 2], shares[first + 3]
        ask_ahead(values[first].ctypes.data)
        for column in range(width):
            left = one * widened(values[first, column]) + two * widened(values[first + 1, column])
            right = three * widened(values[first + 2, column]) + four * widened(values[first + 3, column])
            out[column] += left + right
    for position in range(fours, positions):
        for column in range(width):
            out[column] += shares[position] * widened(values[position, column])
