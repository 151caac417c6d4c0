"""A CTranslate2 Whisper model's decoder in the form that the kernels compute with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backends.ctranslate2_weights import UnknownWeightsError, read_weights
from pipeline.backends.dot_products import LANES
from pipeline.backends.kernels import Floats, pack
from pipeline.backends.whisper_kernels import Linear, Norm, Weights

SPECIFICATION, REVISION = "WhisperSpec", 3


class DecoderWeights:
    """Reads the decoder's variables by the names that CTranslate2 gives them."""

    def __init__(self, folder: Path) -> None:
        """Raises UnknownWeightsError where the model is of another kind."""
        self._variables = read_weights(folder / "model.bin", SPECIFICATION, REVISION)
        embedding = self._variable("decoder/embeddings/weight")
        if embedding.dtype not in (np.float16, np.float32) or embedding.shape[1] % LANES:
            raise UnknownWeightsError(f"{folder}: {embedding.dtype} weights of width {embedding.shape[1]}")
        self._layers = sum(
            name.startswith("decoder/") and name.endswith("/ffn/linear_0/weight") for name in self._variables
        )
        self.heads = int(self._variable("decoder/num_heads"))

    def packed(self) -> Weights:
        """The weights of all that is computed token by token."""
        return Weights(
            self_norm=self._norm("self_attention/layer_norm"),
            qkv=self._linear("self_attention/linear_0"),
            self_out=self._linear("self_attention/linear_1"),
            cross_norm=self._norm("attention/layer_norm"),
            query=self._linear("attention/linear_0"),
            cross_out=self._linear("attention/linear_2"),
            mlp_norm=self._norm("ffn/layer_norm"),
            up=self._linear("ffn/linear_0"),
            down=self._linear("ffn/linear_1"),
            norm=Norm(*(self._floats(f"decoder/layer_norm/{part}")[None] for part in ("gamma", "beta"))),
            head=pack([self._floats("decoder/embeddings/weight")]),
            positions=self._floats("decoder/position_encodings/encodings"),
            heads=self.heads,
        )

    def cross(self) -> tuple[Floats, Floats]:
        """Weights ``[rows, width]`` and biases ``[rows]`` to every layer's keys and values of what was heard."""
        name = "attention/linear_1"
        return np.concatenate(self._each(f"{name}/weight")), np.concatenate(self._each(f"{name}/bias"))

    def _norm(self, name: str) -> Norm:
        return Norm(np.stack(self._each(f"{name}/gamma")), np.stack(self._each(f"{name}/beta")))

    def _linear(self, name: str) -> Linear:
        return Linear(pack(self._each(f"{name}/weight")), np.stack(self._each(f"{name}/bias")))

    def _each(self, name: str) -> list[Floats]:
        return [self._floats(f"decoder/layer_{layer}/{name}") for layer in range(self._layers)]

    def _floats(self, name: str) -> Floats:
        return np.array(self._variable(name), np.float32)

    def _variable(self, name: str) -> NDArray[Any]:
        if name not in self._variables:
            raise UnknownWeightsError(f"no {name} in the model")
        return self._variables[name]
