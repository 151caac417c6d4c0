"""What Whisper's decoder has of what was heard: every layer's keys and values of the encoder's output.

On processors with tiles for bfloat16 they are made, kept and looked at in these.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from pipeline.backends.bfloat16 import bfloat16_pays
from pipeline.backends.bfloat16_tiles import BLOCK, TILE_COLUMNS, TILE_ROWS, strips, weights_in_tiles
from pipeline.backends.bfloats import Bfloats, widened
from pipeline.backends.compiler import njit
from pipeline.backends.kernels import Floats, attend
from pipeline.backends.tiled_attention import Tiled, in_tiles, multiplied, put_keys, put_values, see
from pipeline.backends.tiles import LAYOUT, configure, lined_up, lined_up_floats, release

USUAL_FRAMES = 160  # 3.2 s of sound; what is heard comes in whole steps of the encoder

_callers = threading.local()


class Heard(NamedTuple):
    """Keys and values: in tiles ``[layers, heads, strips, tiles, 16, 32]``, those of a head as of weights.

    Where there are none, they are floats ``[layers, heads, frames, head width]``.
    """

    keys: Floats
    values: Floats
    tiled_keys: Bfloats
    tiled_values: Bfloats


_NO_FLOATS = np.empty((0,) * 4, np.float32)
_NO_TILES = np.empty((0,) * 6, np.uint16)


@njit(nogil=True, cache=True)
def look(queries: Floats, heard: Heard, layer: int, out: Floats) -> None:
    """``out [rows, width]``: what every row's heads see of what was heard."""
    if len(heard.tiled_keys):
        _look_in_tiles(queries, heard.tiled_keys[layer], heard.tiled_values[layer], out)
        return
    even = np.empty(0, np.float32)  # no place counts more than another
    seen = 0, heard.keys.shape[2]
    for row in range(len(queries)):
        attend(queries[row], seen, heard.keys[layer], heard.values[layer], even, out[row])


@njit(nogil=True, cache=True)
def _look_in_tiles(queries: Floats, keys: Bfloats, values: Bfloats, out: Floats) -> None:
    rows, width = queries.shape
    whole = lined_up_floats(-(-rows // BLOCK) * BLOCK, width)
    whole[rows:] = 0
    whole[:rows] = queries
    tiled, mixed = in_tiles(whole), strips(*whole.shape)
    tiles = width // TILE_COLUMNS // len(keys)
    configure(LAYOUT.ctypes.data)
    for head in range(len(keys)):
        first = head * tiles
        see(tiled[:, first : first + tiles], keys[head], values[head], mixed, first, rows)
    release()
    for row in range(rows):
        for tile in range(width // TILE_COLUMNS):
            one, place = mixed[row // TILE_ROWS, tile, row % TILE_ROWS], out[row][tile * TILE_COLUMNS :]
            for column in range(TILE_COLUMNS):
                place[column] = widened(one[column])


class TiledEar:
    """Makes them of the encoder's output: the one product of a decoder that has many rows."""

    def __init__(self, weight: Floats, bias: Floats, heads: int) -> None:
        self._linear, self._heads = Tiled(weights_in_tiles(weight), bias), heads

    def hear(self, encoded: Floats) -> Heard:
        """Keys and values of ``encoded [frames, width]``; the frames are a multiple of BLOCK."""
        return Heard(_NO_FLOATS, _NO_FLOATS, *_hear(encoded, self._linear, self._heads))


@njit(nogil=True, cache=True)
def _hear(encoded: Floats, cross: Tiled, heads: int) -> tuple[Bfloats, Bfloats]:
    """Every layer's weights and biases are those of its keys, then of its values."""
    layers, (frames, width) = len(cross.bias), encoded.shape
    head_width = width // heads
    key_tiles = layers, heads, frames // TILE_ROWS, head_width // TILE_COLUMNS, TILE_ROWS, TILE_COLUMNS
    value_tiles = layers, heads, head_width // TILE_ROWS, frames // TILE_COLUMNS, TILE_ROWS, TILE_COLUMNS
    keys = lined_up(2 * layers * encoded.size).view(np.uint16).reshape(key_tiles)
    values = lined_up(2 * layers * encoded.size).view(np.uint16).reshape(value_tiles)
    x, some = in_tiles(encoded), lined_up_floats(frames, BLOCK)
    configure(LAYOUT.ctypes.data)
    for layer in range(layers):
        for begin in range(0, width, BLOCK):
            head, tile = begin // head_width, begin % head_width // BLOCK
            put_keys(some, multiplied(x, cross, layer, begin, some), keys[layer, head], tile)
            put_values(some, multiplied(x, cross, layer, width + begin, some), values[layer, head], tile)
    release()
    return keys, values


class Ear:
    """The same for processors without tiles for bfloat16."""

    def __init__(self, weight: Floats, bias: Floats, heads: int, threads: int) -> None:
        import torch

        self._heads, self._threads = heads, threads
        self._weight, self._bias = torch.from_numpy(weight).flatten(0, 1), torch.from_numpy(bias).flatten()
        if bfloat16_pays([self._weight], USUAL_FRAMES):
            self._weight, self._bias = self._weight.bfloat16(), self._bias.bfloat16()

    def hear(self, encoded: Floats) -> Heard:
        """Keys and values of ``encoded [frames, width]``."""
        import torch

        _compute_with(self._threads)
        frames, width = encoded.shape
        with torch.inference_mode():
            x = torch.from_numpy(encoded).to(self._weight.dtype)
            both = torch.nn.functional.linear(x, self._weight, self._bias)
            split = both.view(frames, -1, 2, self._heads, width // self._heads).permute(2, 1, 3, 0, 4)
            keys, values = torch.empty(split.shape).copy_(split).numpy()
        return Heard(keys, values, _NO_TILES, _NO_TILES)


def _compute_with(threads: int) -> None:
    """Have torch take so many threads for what this one asks of it, and leave all others as they are.

    torch has a number for each thread that has computed, and one for those to come: both are set at once.
    """
    import torch

    if getattr(_callers, "threads", 0) != threads:
        for_others = torch.get_num_threads()
        torch.set_num_threads(threads)
        other = threading.Thread(target=torch.set_num_threads, args=(for_others,))
        other.start()
        other.join()
        _callers.threads = threads
