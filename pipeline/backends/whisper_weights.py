"""A CTranslate2 Whisper model's weights in the forms that its encoder and its decoder compute with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.backends import mapped
from pipeline.backends.ctranslate2_weights import UnknownWeightsError, read_weights
from pipeline.backends.dot_products import LANES
from pipeline.backends.kernels import Floats, pack
from pipeline.backends.whisper_kernels import Linear, Norm, Weights
from pipeline.prepared import Form, Prepared

SPECIFICATION, REVISION = "WhisperSpec", 3
FORM = Form("whisper-decoder", 1)


class Decoding(NamedTuple):
    """What a decoder computes with: weights, and those to every layer's keys and values of what was heard."""

    weights: Weights
    cross_weight: Floats
    cross_bias: Floats


def decoding(folder: Path, prepared: Prepared | None) -> Decoding:
    """A model's decoder, from what an earlier start has kept, or for the next. Raises UnknownWeightsError."""
    return mapped.kept(Decoding, folder, FORM, prepared, lambda: DecoderWeights(folder).decoding())


class _Variables:
    """A model's variables by the names that CTranslate2 gives them."""

    def __init__(self, folder: Path, part: str) -> None:
        """Raises UnknownWeightsError where the model is of another kind."""
        self._variables = read_weights(folder / "model.bin", SPECIFICATION, REVISION)
        self.layers = sum(
            name.startswith(f"{part}/") and name.endswith("/ffn/linear_0/weight") for name in self._variables
        )
        self.heads = int(self._variable(f"{part}/num_heads"))

    def floats(self, name: str) -> Floats:
        """A variable as float32."""
        return np.array(self._variable(name), np.float32)

    def _variable(self, name: str) -> NDArray[Any]:
        if name not in self._variables:
            raise UnknownWeightsError(f"no {name} in the model")
        return self._variables[name]


class EncoderWeights(_Variables):
    """Reads the encoder's variables."""

    def __init__(self, folder: Path) -> None:
        """Raises UnknownWeightsError where the model is of another kind."""
        super().__init__(folder, "encoder")

    def linear(self, name: str) -> tuple[Floats, Floats]:
        """Weights and biases of a product or a convolution."""
        return self.floats(f"{name}/weight"), self.floats(f"{name}/bias")

    def norm(self, name: str) -> tuple[Floats, Floats]:
        """Weights and biases of a layer normalisation."""
        return self.floats(f"{name}/gamma"), self.floats(f"{name}/beta")

    def positions(self) -> Floats:
        """What is added to each frame, ``[frames, width]``."""
        return self.floats("encoder/position_encodings/encodings")


class DecoderWeights(_Variables):
    """Reads the decoder's variables."""

    def __init__(self, folder: Path) -> None:
        """Raises UnknownWeightsError where the model is of another kind."""
        super().__init__(folder, "decoder")
        embedding = self._variable("decoder/embeddings/weight")
        if embedding.dtype not in (np.float16, np.float32) or embedding.shape[1] % LANES:
            raise UnknownWeightsError(f"{folder}: {embedding.dtype} weights of width {embedding.shape[1]}")

    def decoding(self) -> Decoding:
        """All that the decoder computes with."""
        return Decoding(self.packed(), *self.cross())

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
            norm=Norm(*(self.floats(f"decoder/layer_norm/{part}")[None] for part in ("gamma", "beta"))),
            head=pack([self.floats("decoder/embeddings/weight")]),
            positions=self.floats("decoder/position_encodings/encodings"),
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
        return [self.floats(f"decoder/layer_{layer}/{name}") for layer in range(self.layers)]
