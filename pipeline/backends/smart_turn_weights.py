"""Smart Turn's weights in the forms that its encoder, which is Whisper's, and its head compute with.

The ONNX file has them as int8, and rounds what is computed with them to int8 as well. That is left out, and the
verdicts are no worse for it (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.backends import mapped
from pipeline.backends.bfloat16_tiles import weights_in_tiles
from pipeline.backends.ctranslate2_weights import UnknownWeightsError
from pipeline.backends.kernels import Floats
from pipeline.backends.tiled_attention import Tiled
from pipeline.backends.whisper_encoder_kernels import Weights as Encoder
from pipeline.backends.whisper_kernels import Norm
from pipeline.prepared import Form, Prepared

FORM = Form("smart-turn-tiles", 1)
HEAD_WIDTH = 64  # as in every Whisper
FRAMES = 384  # of the 400 in 8 s the last ones, which fill their tiles

_ENCODER, _CLASSIFIER, _POOL = "inner.encoder", "inner.classifier", "inner.pool_attention"


class Dense(NamedTuple):
    """Weights ``[rows, columns]`` and biases ``[rows]``."""

    weight: Floats
    bias: Floats


class Head(NamedTuple):
    """What hears the end of a turn in the encoder's frames: attention over them, and a classifier."""

    keys: Tiled
    query: Floats
    first: Dense
    norm: Norm
    second: Dense
    last: Dense


class SmartTurnWeights(NamedTuple):
    """All of the model."""

    encoder: Encoder
    head: Head


def smart_turn_weights(path: Path, prepared: Prepared | None) -> SmartTurnWeights:
    """Those of an ONNX file; in ``prepared`` they are kept for the next start. Raises UnknownWeightsError."""
    return mapped.kept(SmartTurnWeights, path.parent, FORM, prepared, lambda: _File(path).weights())


class _File:
    """The file's variables by their names in training; the weights of products come in the order of the graph."""

    def __init__(self, path: Path) -> None:
        import onnx

        graph = onnx.load(path).graph
        self._variables = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
        self._products = self._in_order(graph.node)

    def weights(self) -> SmartTurnWeights:
        """All of them. Raises UnknownWeightsError where the model is of another kind."""
        try:
            return SmartTurnWeights(self._encoder(), self._head())
        except (KeyError, StopIteration, ValueError) as error:
            raise UnknownWeightsError(f"not a Smart Turn model of version 3: {error}") from error

    def _encoder(self) -> Encoder:
        layers = sum(name.startswith(_ENCODER) and name.endswith(".fc1.bias") for name in self._variables)
        products = [[next(self._products) for _ in range(6)] for _ in range(layers)]
        key, query, value, out, up, down = (list(each) for each in zip(*products, strict=True))
        attention = [f"{_ENCODER}.layers.{layer}.self_attn" for layer in range(layers)]
        width = len(out[0])
        no_bias = np.zeros(width, np.float32)  # Whisper's keys have none
        biases = [
            np.concatenate((self._floats(f"{one}.q_proj.bias"), no_bias, self._floats(f"{one}.v_proj.bias")))
            for one in attention
        ]
        return Encoder(
            bands=self._variables[f"{_ENCODER}.conv1.weight_quantized"].shape[1],
            first_convolution=self._convolution("conv1"),
            second_convolution=self._convolution("conv2"),
            positions=self._floats(f"{_ENCODER}.embed_positions.weight")[-FRAMES:],
            attention_norm=self._norms("self_attn_layer_norm", layers),
            qkv=_tiled([np.concatenate(parts) for parts in zip(query, key, value, strict=True)], biases),
            out=_tiled(out, self._biases("self_attn.out_proj", layers)),
            mlp_norm=self._norms("final_layer_norm", layers),
            up=_tiled(up, self._biases("fc1", layers)),
            down=_tiled(down, self._biases("fc2", layers)),
            norm=self._norm(f"{_ENCODER}.layer_norm"),
            heads=width // HEAD_WIDTH,
        )

    def _head(self) -> Head:
        keys, query = next(self._products), next(self._products)
        return Head(
            keys=_tiled([keys], [self._floats(f"{_POOL}.0.bias")]),
            query=query[0],
            first=self._dense("0"),
            norm=self._norm(f"{_CLASSIFIER}.1"),
            second=self._dense("4"),
            last=self._dense("6"),
        )

    def _in_order(self, nodes: Any) -> Iterator[Floats]:
        """The weights ``[rows, columns]`` of the graph's products by weights."""
        for node in nodes:
            name = node.input[1].removesuffix("_DequantizeLinear_Output") if node.op_type == "MatMul" else ""
            if f"{name}_quantized" in self._variables:
                yield self._floats(name, axis=1).T

    def _convolution(self, name: str) -> Tiled:
        weight = self._floats(f"{_ENCODER}.{name}.weight").swapaxes(1, 2)
        return _tiled([weight.reshape(len(weight), -1)], [self._floats(f"{_ENCODER}.{name}.bias")])

    def _dense(self, name: str) -> Dense:
        return Dense(self._floats(f"{_CLASSIFIER}.{name}.weight"), self._floats(f"{_CLASSIFIER}.{name}.bias"))

    def _norms(self, name: str, layers: int) -> Norm:
        norms = [self._norm(f"{_ENCODER}.layers.{layer}.{name}") for layer in range(layers)]
        return Norm(*(np.concatenate(each) for each in zip(*norms, strict=True)))

    def _norm(self, name: str) -> Norm:
        return Norm(self._floats(f"{name}.weight")[None], self._floats(f"{name}.bias")[None])

    def _biases(self, name: str, layers: int) -> list[Floats]:
        return [self._floats(f"{_ENCODER}.layers.{layer}.{name}.bias") for layer in range(layers)]

    def _floats(self, name: str, axis: int = 0) -> Floats:
        """A variable as float32; one of integers with its scale, or with one for each place along an axis."""
        if name in self._variables:
            return _float32(self._variables[name])
        integers = _float32(self._variables[f"{name}_quantized"])
        scale = self._variables.get(f"{name}_scale", self._variables.get(f"{name}_quantized_scale"))
        if scale is None:
            raise KeyError(f"{name}_scale")
        zero = self._variables.get(f"{name}_zero_point", np.zeros((), np.float32))
        shape = [-1 if place == axis and scale.size > 1 else 1 for place in range(integers.ndim)]
        return (integers - _float32(zero).reshape(shape)) * _float32(scale).reshape(shape)


def _tiled(layers: list[Floats], biases: list[Floats]) -> Tiled:
    return Tiled(weights_in_tiles(np.stack(layers)), np.stack(biases))


def _float32(values: NDArray[Any]) -> Floats:
    return np.array(values, np.float32)  # a copy: compiled loops are for arrays that can be changed
