"""Smart Turn's head: what its encoder heard, as one probability, in one call of compiled loops."""

from __future__ import annotations

import numpy as np

from pipeline.backends.bfloat16_tiles import multiply
from pipeline.backends.compiler import FAST, njit
from pipeline.backends.kernels import Floats
from pipeline.backends.smart_turn_weights import Dense, Head
from pipeline.backends.tiled_attention import in_tiles
from pipeline.backends.tiles import LAYOUT, configure, release
from pipeline.backends.whisper_kernels import bent, normed


@njit(nogil=True, cache=True)
def probability(x: Floats, head: Head) -> np.float32:
    """That the turn is over, of frames ``x [frames, width]``."""
    y = _dense(_pooled(x, head)[None], head.first)
    y = _bent(normed(y, head.norm, 0))
    y = _dense(_bent(_dense(y, head.second)), head.last)
    return np.float32(1 / (1 + np.exp(-y[0, 0])))


@njit(nogil=True, cache=True, fastmath=FAST)
def _pooled(x: Floats, head: Head) -> Floats:
    """The frames ``[width]`` by their shares of the attention (Okabe et al. 2018)."""
    keys = np.empty((len(x), len(head.query)), np.float32)
    tiled = in_tiles(x)
    configure(LAYOUT.ctypes.data)
    multiply(tiled, head.keys.weight[0], keys)
    release()
    shares = np.zeros(len(x), np.float32)
    for frame in range(len(x)):
        for place in range(len(head.query)):
            shares[frame] += np.tanh(keys[frame, place] + head.keys.bias[0, place]) * head.query[place]
    shares = np.exp(shares - shares.max())
    shares /= shares.sum()
    pooled = np.zeros(x.shape[1], np.float32)
    for frame in range(len(x)):
        for column in range(len(pooled)):
            pooled[column] += shares[frame] * x[frame, column]
    return pooled


@njit(nogil=True, cache=True, fastmath=FAST)
def _dense(x: Floats, layer: Dense) -> Floats:
    """``x [1, columns]`` times a layer's weights, and its biases."""
    out = np.empty((1, len(layer.bias)), np.float32)
    for row in range(len(layer.bias)):
        total = layer.bias[row]
        for column in range(x.shape[1]):
            total += layer.weight[row, column] * x[0, column]
        out[0, row] = total
    return out


@njit(nogil=True, cache=True)
def _bent(x: Floats) -> Floats:
    for column in range(x.shape[1]):
        x[0, column] = bent(x[0, column])
    return x
