"""The lean Llama decoder: all its layers in one call of compiled loops (kernels.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.backends.bfloats import Bfloats, rounded
from pipeline.backends.compiler import FAST, njit
from pipeline.backends.kernels import Floats, Packed, attend, exponential, project

Indexes = NDArray[np.int64]


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


class Caches(NamedTuple):
    """Where the new rows of several sequences go: ``begins[s]`` to ``begins[s + 1]`` belong to sequence ``s``.

    At the addresses ``keys[s]`` and ``values[s]`` are bfloat16 ``[layers, kv heads, capacities[s], head width]``:
    room for a state's slots, then tokens. The sequence's first new row goes to place ``ends[s]``; the last
    ``slots[s]`` places of the first ``room`` are slots, which the layers from ``uppers[s]`` on see with
    ``log_weights[s]`` added to their logits.
    """

    begins: Indexes
    keys: Indexes
    values: Indexes
    capacities: Indexes
    ends: Indexes
    room: int
    uppers: Indexes
    slots: Indexes
    log_weights: Floats


def _pointer(_typing: Any, _address: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint16)(types.intp), build


_bfloats_at: Any = intrinsic(_pointer)


@njit(nogil=True, cache=True)
def read(x: Floats, positions: Indexes, caches: Caches, first: int, tap: int, weights: Weights) -> Floats:
    """Take rows ``x [rows, width]`` at their positions through the layers from ``first`` on, in place.

    Their keys and values are written into their sequences' caches. Returns what x was before the layer ``tap``;
    nothing, ``[0, width]``, if that is none.
    """
    rows = x.shape[0]
    states = np.empty((0, x.shape[1]), np.float32)
    qkv = np.empty((rows, weights.qkv.values.shape[1]), np.float32)
    mixed = np.empty_like(x)
    gate_up = np.empty((rows, weights.gate_up.values.shape[1]), np.float32)
    cosines, sines = _turns(positions, weights.frequencies)
    turned = (weights.heads + weights.kv_heads) * 2 * len(weights.frequencies)
    for layer in range(first, weights.qkv.values.shape[0]):
        if layer == tap:
            states = x.copy()
        project(_normed(x, weights.norm_before[layer], weights.epsilon), weights.qkv, layer, qkv)
        for row in range(rows):
            _turn(qkv[row, :turned], cosines[row], sines[row])
        for sequence in range(len(caches.keys)):
            _attend_own(qkv, caches, sequence, layer, weights.heads, weights.kv_heads, mixed)
        _add_projected(x, mixed, weights.out, layer)
        project(_normed(x, weights.norm_after[layer], weights.epsilon), weights.gate_up, layer, gate_up)
        _add_projected(x, _gated(gate_up), weights.down, layer)
    return states


@njit(nogil=True, cache=True)
def _attend_own(
    qkv: Floats, caches: Caches, sequence: int, layer: int, heads: int, kv_heads: int, out: Floats
) -> None:
    """What the new rows of one sequence see of it, themselves included; row by row."""
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    shape = (kv_heads, caches.capacities[sequence], width)
    offset = layer * shape[0] * shape[1] * shape[2] * 2
    keys = carray(_bfloats_at(caches.keys[sequence] + offset), shape)
    values = carray(_bfloats_at(caches.values[sequence] + offset), shape)
    slots = caches.slots[sequence] if layer >= caches.uppers[sequence] else 0
    log_weights = caches.log_weights[sequence, :slots]
    begin, end = caches.begins[sequence], caches.begins[sequence + 1]
    for row in range(begin, end):
        place = caches.ends[sequence] + row - begin
        _store(qkv[row], place, keys, values, heads)
        attend(qkv[row], (caches.room - slots, place + 1), keys, values, log_weights, out[row])


@njit(nogil=True, cache=True)
def predict(x: Floats, weights: Weights) -> Floats:
    """The logits ``[tokens, vocabulary]`` after tokens that went through all layers."""
    logits = np.empty((x.shape[0], weights.head.values.shape[1]), np.float32)
    project(_normed(x, weights.norm, weights.epsilon), weights.head, 0, logits)
    return logits


@njit(nogil=True, cache=True)
def _add_projected(x: Floats, y: Floats, weight: Packed, layer: int) -> None:
    added = np.empty_like(x)
    project(y, weight, layer, added)
    x += added


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


@njit(nogil=True, cache=True)
def _turns(positions: Indexes, frequencies: Floats) -> tuple[Floats, Floats]:
    """Cosines and sines ``[positions, pairs]`` of the angles that rows at these positions are turned by."""
    angles = np.empty((len(positions), len(frequencies)), np.float32)
    for row in range(len(positions)):
        angles[row] = np.float32(positions[row]) * frequencies
    return np.cos(angles), np.sin(angles)


@njit(nogil=True, cache=True, fastmath=FAST)
def _turn(heads: Floats, cosines: Floats, sines: Floats) -> None:
    """Turn a row's queries and keys by its position (Su et al. 2021, halves paired)."""
    half = len(cosines)
    for at in range(0, len(heads), 2 * half):
        for pair in range(half):
            left, right = heads[at + pair], heads[at + pair + half]
            heads[at + pair] = left * cosines[pair] - right * sines[pair]
            heads[at + pair + half] = right * cosines[pair] + left * sines[pair]


@njit(nogil=True, cache=True)
def _store(qkv: Floats, place: int, keys: Bfloats, values: Bfloats, heads: int) -> None:
    kv_heads, _, width = keys.shape
    for head in range(kv_heads):
        key, value = (heads + head) * width, (heads + kv_heads + head) * width
        for column in range(width):
            keys[head, place, column] = rounded(qkv[key + column])
            values[head, place, column] = rounded(qkv[value + column])


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")  # a check for zero would rule out vectors
def _gated(gate_up: Floats) -> Floats:
    """SwiGLU (Shazeer 2020) of the fused projections ``[tokens, gate and up]``."""
    tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = np.empty((tokens, width), np.float32)
    one = np.float32(1)
    for token in range(tokens):
        for column in range(width):
            gate = gate_up[token, column]
            power = exponential(-abs(gate))
            share = (one if gate > 0 else power) / (one + power)
            out[token, column] = gate * share * gate_up[token, width + column]
    return out
