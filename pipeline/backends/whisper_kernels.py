"""Whisper's decoder (Radford et al. 2022): all its layers in one call of compiled loops (kernels.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.backends.compiler import FAST, njit
from pipeline.backends.kernels import Floats, Packed, attend, project, unpack_row
from pipeline.backends.tiles import lined_up_floats
from pipeline.backends.whisper_hearing import Heard, look

EPSILON = 1e-5


class Norm(NamedTuple):
    """A layer normalisation's weights and biases, ``[layers, width]``."""

    weight: Floats
    bias: Floats


class Linear(NamedTuple):
    """Weights ``[layers, rows, columns]`` and biases ``[layers, rows]``."""

    weight: Packed
    bias: Floats


class Weights(NamedTuple):
    """A decoder's weights, all layers of a kind in one array; ``head`` is the embedding too, filled up."""

    self_norm: Norm
    qkv: Linear
    self_out: Linear
    cross_norm: Norm
    query: Linear
    cross_out: Linear
    mlp_norm: Norm
    up: Linear
    down: Linear
    norm: Norm
    head: Packed
    vocabulary: int
    positions: Floats
    heads: int


class Memory(NamedTuple):
    """Keys and values of what each line has written, ``[lines, layers, heads, positions, head width]``."""

    keys: Floats
    values: Floats


@njit(nogil=True, cache=True)
def read(ids: NDArray[np.int64], begin: int, written: Memory, heard: Heard, weights: Weights) -> Floats:
    """Take the next tokens ``[lines, tokens]``, at positions from ``begin`` on, through all layers.

    Returns them, ``[lines * tokens, width]``. Their keys and values are put into ``written``.
    """
    tokens = ids.shape[1]
    x = _embedded(ids, begin, weights)
    even = np.empty(0, np.float32)  # no place counts more than another
    qkv = lined_up_floats(len(x), weights.qkv.bias.shape[1])
    query, mixed = lined_up_floats(*x.shape), lined_up_floats(*x.shape)
    wide = lined_up_floats(len(x), weights.up.bias.shape[1])
    for layer in range(weights.qkv.bias.shape[0]):
        _linear(normed(x, weights.self_norm, layer), weights.qkv, layer, qkv)
        for row in range(len(x)):
            line, position = row // tokens, begin + row % tokens
            keys, values = written.keys[line, layer], written.values[line, layer]
            _place(qkv[row], position, keys, values)
            attend(qkv[row], (0, position + 1), keys, values, even, mixed[row])
        _add(x, mixed, weights.self_out, layer)
        _linear(normed(x, weights.cross_norm, layer), weights.query, layer, query)
        look(query, heard, layer, mixed)
        _add(x, mixed, weights.cross_out, layer)
        _linear(normed(x, weights.mlp_norm, layer), weights.up, layer, wide)
        _bend(wide)
        _add(x, wide, weights.down, layer)
    return x


@njit(nogil=True, cache=True)
def predict(x: Floats, weights: Weights) -> Floats:
    """The logits ``[tokens, vocabulary]`` after tokens that went through all layers."""
    logits = lined_up_floats(x.shape[0], weights.head.values.shape[1])
    project(normed(x, weights.norm, 0), weights.head, 0, logits)
    return logits[:, : weights.vocabulary]


@njit(nogil=True, cache=True)
def _embedded(ids: NDArray[np.int64], begin: int, weights: Weights) -> Floats:
    lines, tokens = ids.shape
    x = lined_up_floats(lines * tokens, weights.positions.shape[1])
    for row in range(len(x)):
        unpack_row(weights.head, 0, ids[row // tokens, row % tokens], x[row])
        x[row] += weights.positions[begin + row % tokens]
    return x


@njit(nogil=True, cache=True)
def _add(x: Floats, y: Floats, linear: Linear, layer: int) -> None:
    added = lined_up_floats(*x.shape)
    _linear(y, linear, layer, added)
    x += added


@njit(nogil=True, cache=True)
def _linear(x: Floats, linear: Linear, layer: int, out: Floats) -> None:
    project(x, linear.weight, layer, out)
    out += linear.bias[layer]


@njit(nogil=True, cache=True, fastmath=FAST)
def normed(x: Floats, norm: Norm, layer: int) -> Floats:
    """``x [tokens, width]`` with mean 0 and variance 1 in every row, times the layer's weights."""
    tokens, width = x.shape
    out = lined_up_floats(*x.shape)
    for token in range(tokens):
        total, squares = np.float32(0), np.float32(0)
        for column in range(width):
            total += x[token, column]
        mean = np.float32(total / width)
        for column in range(width):
            squares += (x[token, column] - mean) * (x[token, column] - mean)
        factor = np.float32(1 / np.sqrt(squares / width + EPSILON))
        for column in range(width):
            normed = (x[token, column] - mean) * factor
            out[token, column] = normed * norm.weight[layer, column] + norm.bias[layer, column]
    return out


@njit(nogil=True, cache=True)
def _place(qkv: Floats, position: int, keys: Floats, values: Floats) -> None:
    heads, _, width = keys.shape
    for head in range(heads):
        key, value = (heads + head) * width, (2 * heads + head) * width
        keys[head, position] = qkv[key : key + width]
        values[head, position] = qkv[value : value + width]


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")  # a check for zero would rule out vectors
def bent(value: np.float32) -> np.float32:
    """GELU (Hendrycks and Gimpel 2016); the error function by Abramowitz and Stegun 7.1.28."""
    z = abs(value) * np.float32(np.sqrt(0.5))
    p = np.float32(0.0000430638)
    p = p * z + np.float32(0.0002765672)
    p = p * z + np.float32(0.0001520143)
    p = p * z + np.float32(0.0092705272)
    p = p * z + np.float32(0.0422820123)
    p = p * z + np.float32(0.0705230784)
    p = p * z + np.float32(1)
    p = p * p * p * p
    p = p * p * p * p
    error = np.float32(1) - np.float32(1) / p
    return np.float32(0.5) * (value + abs(value) * error)


@njit(nogil=True, cache=True, fastmath=FAST)
def _bend(x: Floats) -> None:
    for token in range(x.shape[0]):
        row = x[token]
        for column in range(len(row)):
            row[column] = bent(row[column])
