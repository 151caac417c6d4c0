"""Whisper's encoder in bfloat16, for processors that multiply it in hardware.

Encoding is most of what hearing costs, and nearly all of it is products of many rows. Where a processor has tiles
of bfloat16 (AMX) they take half the time of CTranslate2's int8, and what comes out is closer to float32's.
"""

from __future__ import annotations

import llvmlite.binding
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pipeline.backends.kernels import Floats
from pipeline.backends.whisper_ear import STEP_FRAMES
from pipeline.backends.whisper_weights import EncoderWeights

USUAL_FRAMES = 256  # 4 s of sound and the silence after it
MOST_USUAL_FRAMES = 448
# torch lays weights out anew at every call, which for a few seconds of sound costs as much as the product. The
# operators that do it once are those that its own compiler uses; they have no public name.
LAYS_OUT = hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def has_tiles() -> bool:
    """Whether this processor multiplies tiles of bfloat16, and torch makes use of it."""
    return bool(llvmlite.binding.get_host_cpu_features().get("amx-bf16")) and LAYS_OUT


class WhisperEncoder:
    """One model's encoder; may be used from several threads."""

    def __init__(self, weights: EncoderWeights) -> None:
        first, second = (weights.linear(f"encoder/conv{number}") for number in (1, 2))
        self._bands = first[0].shape[1]
        self._convolutions = [_Product(weight.swapaxes(1, 2), bias) for weight, bias in (first, second)]
        self._positions = torch.from_numpy(weights.positions())
        self._layers = [_Layer(weights, f"encoder/layer_{layer}") for layer in range(weights.layers)]
        self._norm = _Norm(*weights.norm("encoder/layer_norm"))
        self._heads = weights.heads

    def warm_up(self) -> None:
        """Meet the usual lengths, in a thread that computes with as many threads as later ones.

        Plans are for shapes, which are the same in every layer.
        """
        for frames in range(2 * STEP_FRAMES, MOST_USUAL_FRAMES + 1, STEP_FRAMES):
            self._through(np.zeros((self._bands, 2 * frames), np.float32), self._layers[:1])

    def encode(self, features: Floats) -> Floats:
        """``features [bands, 2 frames]`` of 10 ms as ``[1, frames, width]``."""
        return self._through(features, self._layers)

    def _through(self, features: Floats, layers: list[_Layer]) -> Floats:
        with torch.inference_mode():
            x = torch.from_numpy(features).T.bfloat16()
            for stride, convolution in enumerate(self._convolutions, start=1):
                x = convolution.bent(_threes(x, stride))
            x = x + self._positions[: len(x)]
            for layer in layers:
                x = layer.through(x, self._heads)
            encoded: Floats = self._norm(x)[None].numpy()
            return encoded


class _Layer:
    """A transformer layer; sums are float32, products bfloat16."""

    def __init__(self, weights: EncoderWeights, name: str) -> None:
        self._attention_norm = _Norm(*weights.norm(f"{name}/self_attention/layer_norm"))
        self._qkv = _Product(*weights.linear(f"{name}/self_attention/linear_0"))
        self._out = _Product(*weights.linear(f"{name}/self_attention/linear_1"))
        self._mlp_norm = _Norm(*weights.norm(f"{name}/ffn/layer_norm"))
        self._up = _Product(*weights.linear(f"{name}/ffn/linear_0"))
        self._down = _Product(*weights.linear(f"{name}/ffn/linear_1"))

    def through(self, x: Tensor, heads: int) -> Tensor:
        """``x [frames, width]`` behind the layer."""
        frames, width = x.shape
        qkv = self._qkv(self._attention_norm(x).bfloat16()).view(1, frames, 3, heads, width // heads)
        mixed = functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4))
        x = x + self._out(mixed[0].transpose(0, 1).reshape(frames, width))
        return x + self._down(self._up.bent(self._mlp_norm(x).bfloat16()))


class _Norm:
    """A layer normalisation."""

    def __init__(self, weight: Floats, bias: Floats) -> None:
        self._weight, self._bias = torch.from_numpy(weight), torch.from_numpy(bias)

    def __call__(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], self._weight, self._bias)


class _Product:
    """Weights ``[rows, ...]`` and biases of a product, in the layout of the tiles."""

    def __init__(self, weight: Floats, bias: Floats) -> None:
        rows = torch.from_numpy(weight).flatten(1).bfloat16()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(rows, USUAL_FRAMES)
        self._bias = torch.from_numpy(bias).bfloat16()

    def __call__(self, x: Tensor, bend: str = "none") -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, bend, [], "none")
        return product

    def bent(self, x: Tensor) -> Tensor:
        """The product through GELU."""
        return self(x, "gelu")


def _threes(x: Tensor, stride: int) -> Tensor:
    """Every frame of ``x [frames, channels]``, or every second, in one row with its neighbours."""
    return functional.pad(x, (0, 0, 1, 1)).unfold(0, 3, stride).transpose(1, 2).flatten(1)
