"""The arithmetic of the lean decoder: plain loops, which numba compiles to one call without Python in it.

A token is hundreds of small operations. Called one by one from Python they cost as much as the weights do, and
each waits for the interpreter's lock: a step took twice as long next to a thread that was busy for a tenth of the
time. Here the lock is let go once a step.

Products are integer: weights have 8 bits and a scale a row, activations 12 and a scale a token. Sums of integers
are exact in any order, so a token's result cannot depend on how many others were computed with it.
"""

from __future__ import annotations

import platform
from typing import NamedTuple

import llvmlite.binding
import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int8] | NDArray[np.int16]

FINEST_LEVELS = 2047  # 12 bits: finer than bfloat16
WEIGHT_LEVELS = 127
# Weights are read from so many places at a time: one core's prefetchers follow several streams faster than one.
STREAMS = 4
# The order of float sums is the compiler's choice, made once: every row runs through the same code.
FAST = {"reassoc", "contract", "arcp", "nsz"}

if platform.machine() in ("x86_64", "AMD64"):
    # LLVM keeps to half of the vector width on processors that had to slow down for the whole.
    numba.config.CPU_NAME = llvmlite.binding.get_host_cpu_name()  # type: ignore[attr-defined]
    features = llvmlite.binding.get_host_cpu_features().flatten()
    numba.config.CPU_FEATURES = f"{features},-prefer-256-bit"  # type: ignore[attr-defined]


class Packed(NamedTuple):
    """Weights ``[..., rows, columns]`` as int8, with one scale a row."""

    values: NDArray[np.int8]
    scales: Floats


class Weights(NamedTuple):
    """A Llama's weights, all layers of a kind in one array, with the projections that share an input fused."""

    norm_before: Floats
    qkv: Packed
    out: Packed
    norm_after: Floats
    gate_up: Packed
    down: Packed
    norm: Floats
    head: Packed
    frequencies: Floats
    heads: int
    kv_heads: int
    epsilon: float


class Cache(NamedTuple):
    """Keys and values ``[layers, kv heads, room + capacity, head width]`` of a state's slots and of tokens.

    ``held`` tokens are there; the last ``len(log_weights)`` places of the room before them are slots, which the
    layers from ``upper`` on see with these weights added to their logits.
    """

    keys: Floats
    values: Floats
    room: int
    held: int
    upper: int
    log_weights: Floats


@njit(nogil=True, cache=True)
def read(x: Floats, positions: NDArray[np.int64], cache: Cache, first: int, tap: int, weights: Weights) -> Floats:
    """Take tokens ``x [tokens, width]`` at their positions through the layers from ``first`` on, in place.

    Their keys and values are written into the cache. Returns what x was before the layer ``tap``; nothing,
    ``[0, width]``, if that is none.
    """
    tokens = x.shape[0]
    states = np.empty((0, x.shape[1]), np.float32)
    qkv = np.empty((tokens, weights.qkv.values.shape[1]), np.float32)
    mixed = np.empty_like(x)
    gate_up = np.empty((tokens, weights.gate_up.values.shape[1]), np.float32)
    for layer in range(first, cache.keys.shape[0]):
        if layer == tap:
            states = x.copy()
        keys, values = cache.keys[layer], cache.values[layer]
        slots = len(cache.log_weights) if layer >= cache.upper else 0
        _project(_normed(x, weights.norm_before[layer], weights.epsilon), weights.qkv, layer, qkv)
        for token in range(tokens):
            place = cache.room + cache.held + token
            _turn(qkv[token], positions[token], weights)
            _store(qkv[token], place, keys, values, weights.heads)
            seen = (cache.room - slots, place + 1)
            _attend(qkv[token], seen, keys, values, cache.log_weights[:slots], mixed[token])
        _add_projected(x, mixed, weights.out, layer)
        _project(_normed(x, weights.norm_after[layer], weights.epsilon), weights.gate_up, layer, gate_up)
        _add_projected(x, _gated(gate_up), weights.down, layer)
    return states


@njit(nogil=True, cache=True)
def predict(x: Floats, weights: Weights) -> Floats:
    """The logits ``[tokens, vocabulary]`` after tokens that went through all layers."""
    logits = np.empty((x.shape[0], weights.head.values.shape[1]), np.float32)
    _project(_normed(x, weights.norm, weights.epsilon), weights.head, 0, logits)
    return logits


@njit(nogil=True, cache=True)
def _add_projected(x: Floats, y: Floats, weight: Packed, layer: int) -> None:
    added = np.empty_like(x)
    _project(y, weight, layer, added)
    x += added


@njit(nogil=True, cache=True)
def _project(x: Floats, weight: Packed, layer: int, out: Floats) -> None:
    """``out [tokens, rows]`` = ``x [tokens, columns]`` times one layer's weights."""
    quantised, scales = quantised_rows(x)
    _multiply(quantised, scales, weight.values[layer], weight.scales[layer], out)


@njit(nogil=True, cache=True)
def _multiply(x: Ints, scales: Floats, weight: Ints, weight_scales: Floats, out: Floats) -> None:
    rows, columns = weight.shape
    stride = -(-rows // STREAMS)
    wide = np.empty(columns, np.int16)
    for first in range(stride):
        for row in range(first, rows, stride):
            for column in range(columns):
                wide[column] = weight[row, column]
            for token in range(x.shape[0]):
                total = np.int32(0)
                for column in range(columns):
                    total = np.int32(total + np.int32(x[token, column]) * np.int32(wide[column]))
                out[token, row] = np.float32(total) * scales[token] * weight_scales[row]


@njit(nogil=True, cache=True)
def quantised_rows(x: Floats) -> tuple[Ints, Floats]:
    """Each row as integers and a scale; as many levels as an int32 can sum over the columns."""
    tokens, columns = x.shape
    levels = np.float32(min(FINEST_LEVELS, np.iinfo(np.int32).max // (WEIGHT_LEVELS * columns)))
    integers, scales = np.empty((tokens, columns), np.int16), np.empty(tokens, np.float32)
    for token in range(tokens):
        largest = np.float32(1e-12)
        for column in range(columns):
            largest = max(largest, abs(x[token, column]))
        scales[token] = largest / levels
        steps = levels / largest
        for column in range(columns):
            integers[token, column] = np.int16(np.rint(x[token, column] * steps))
    return integers, scales


@njit(nogil=True, cache=True, fastmath=FAST)
def _normed(x: Floats, weight: Floats, epsilon: float) -> Floats:
    """Root mean square normalisation (Zhang and Sennrich 2019)."""
    tokens, width = x.shape
    out = np.empty_like(x)
    for token in range(tokens):
        total = np.float32(0)
        for column in range(width):
            total += x[token, column] * x[token, column]
        factor = np.float32(1 / np.sqrt(total / width + epsilon))
        for column in range(width):
            out[token, column] = x[token, column] * factor * weight[column]
    return out


@njit(nogil=True, cache=True, fastmath=FAST)
def _turn(qkv: Floats, position: int, weights: Weights) -> None:
    """Turn queries and keys by the position (Su et al. 2021, halves paired)."""
    half = len(weights.frequencies)
    for pair in range(half):
        angle = np.float32(position) * weights.frequencies[pair]
        cosine, sine = np.cos(angle), np.sin(angle)
        for head in range(weights.heads + weights.kv_heads):
            at = head * 2 * half + pair
            left, right = qkv[at], qkv[at + half]
            qkv[at] = left * cosine - right * sine
            qkv[at + half] = right * cosine + left * sine


@njit(nogil=True, cache=True)
def _store(qkv: Floats, place: int, keys: Floats, values: Floats, heads: int) -> None:
    kv_heads, _, width = keys.shape
    for head in range(kv_heads):
        key, value = (heads + head) * width, (heads + kv_heads + head) * width
        keys[head, place] = qkv[key : key + width]
        values[head, place] = qkv[value : value + width]


@njit(nogil=True, cache=True)
def _attend(
    queries: Floats, seen: tuple[int, int], keys: Floats, values: Floats, log_weights: Floats, out: Floats
) -> None:
    """What one token's heads see of some places; neighbouring heads share a key head."""
    kv_heads, _, width = keys.shape
    heads, (first, end) = out.shape[0] // width, seen
    shares = np.empty(end - first, np.float32)
    for head in range(heads):
        shared, at = head * kv_heads // heads, head * width
        _look(queries[at : at + width], keys[shared, first:end], log_weights, shares)
        _mix(shares, values[shared, first:end], out[at : at + width])


@njit(nogil=True, cache=True, fastmath=FAST)
def _look(query: Floats, keys: Floats, log_weights: Floats, shares: Floats) -> None:
    """The softmax of the query's products with ``keys [positions, head width]``, the first of them weighted."""
    positions, width = keys.shape
    root = np.float32(1 / np.sqrt(width))
    for position in range(positions):
        score = np.float32(0)
        for column in range(width):
            score += query[column] * keys[position, column]
        shares[position] = score * root
    for position in range(len(log_weights)):
        shares[position] += log_weights[position]
    largest, total = shares.max(), np.float32(0)
    for position in range(positions):
        shares[position] = np.exp(shares[position] - largest)
    for position in range(positions):
        total += shares[position]
    shares /= total


@njit(nogil=True, cache=True, fastmath=FAST)
def _mix(shares: Floats, values: Floats, out: Floats) -> None:
    out[:] = 0
    for position in range(values.shape[0]):
        for column in range(values.shape[1]):
            out[column] += shares[position] * values[position, column]


@njit(nogil=True, cache=True, fastmath=FAST)
def _gated(gate_up: Floats) -> Floats:
    """SwiGLU (Shazeer 2020) of the fused projections ``[tokens, gate and up]``."""
    tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = np.empty((tokens, width), np.float32)
    for token in range(tokens):
        for column in range(width):
            gate = gate_up[token, column]
            out[token, column] = gate / (1 + np.exp(-gate)) * gate_up[token, width + column]
    return out
