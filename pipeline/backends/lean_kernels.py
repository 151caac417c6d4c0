"""The lean Llama decoder: all its layers in one call of compiled loops (kernels.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.backends.kernels import FAST, Floats, Packed, attend, project


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
        project(_normed(x, weights.norm_before[layer], weights.epsilon), weights.qkv, layer, qkv)
        for token in range(tokens):
            place = cache.room + cache.held + token
            _turn(qkv[token], positions[token], weights)
            _store(qkv[token], place, keys, values, weights.heads)
            seen = (cache.room - slots, place + 1)
            attend(qkv[token], seen, keys, values, cache.log_weights[:slots], mixed[token])
        _add_projected(x, mixed, weights.out, layer)
        project(_normed(x, weights.norm_after[layer], weights.epsilon), weights.gate_up, layer, gate_up)
        _add_projected(x, _gated(gate_up), weights.down, layer)
    return states


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
