"""A CTranslate2 Whisper model's weights in the forms that its encoder and its decoder compute with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.backends import mapped, whisper_encoder_kernels
from pipeline.backends.bfloat16_tiles import weights_in_tiles
from pipeline.backends.ctranslate2_weights import UnknownWeightsError, read_weights
from pipeline.backends.dot_products import LANES
from pipeline.backends.kernels import Floats, pack
from pipeline.backends.tiled_attention import Tiled
from pipeline.backends.tiles import TILED_ROWS, usable
from pipeline.backends.whisper_kernels import Linear, Norm, Weights
from pipeline.prepared import Form, Prepared

SPECIFICATION, REVISION = "WhisperSpec", 3
ENCODER_FORM = Form("whisper-encoder-tiles", 1)
DECODER_FORM = Form("whisper-decoder-tiles" if usable() else "whisper-decoder", 2)


class Decoding(NamedTuple):
    """What a decoder computes with: weights, and those to every layer's keys and values of what was heard."""

    weights: Weights
    cross_weight: Floats
    cross_bias: Floats


def encoding(folder: Path, prepared: Prepared | None) -> whisper_encoder_kernels.Weights:
    """A model's encoder in tiles of bfloat16, as ``decoding`` has its decoder. Raises UnknownWeightsError."""
    kind = whisper_encoder_kernels.Weights
    return mapped.kept(kind, folder, ENCODER_FORM, prepared, lambda: EncoderWeights(folder).packed())


def decoding(folder: Path, prepared: Prepared | None) -> Decoding:
    """A model's decoder, from what an earlier start has kept, or for the next. Raises UnknownWeightsError."""
    return mapped.kept(Decoding, folder, DECODER_FORM, prepared, lambda: DecoderWeights(folder).decoding())


class _Variables:
    """A model's variables by the names that CTranslate2 gives them."""

    def __init__(self, folder: Path, part: str) -> None:
        """Raises UnknownWeightsError where the model is of another kind."""
        self._variables = read_weights(folder / "model.bin", SPECIFICATION, REVISION)
        self.part = part
        self.layers = sum(
            name.startswith(f"{part}/") and name.endswith("/ffn/linear_0/weight") for name in self._variables
        )
        self.heads = int(self._variable(f"{part}/num_heads"))

    def norm(self, name: str) -> Norm:
        """The weights and biases of a layer normalisation, or of every layer's."""
        return Norm(self.all_layers(f"{name}/gamma"), self.all_layers(f"{name}/beta"))

    def all_layers(self, name: str) -> Floats:
        """A variable of every layer, in one array; of no layer where it is called by its whole name."""
        whole = f"{self.part}/{name}"
        if whole in self._variables:
            return self.floats(whole)[None]
        return np.stack([self.floats(f"{self.part}/layer_{layer}/{name}") for layer in range(self.layers)])

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

    def packed(self) -> whisper_encoder_kernels.Weights:
        """The weights in tiles of bfloat16."""
        return whisper_encoder_kernels.Weights(
            bands=self._variable("encoder/conv1/weight").shape[1],
            first_convolution=self._tiled("conv1"),
            second_convolution=self._tiled("conv2"),
            positions=self.floats("encoder/position_encodings/encodings"),
            attention_norm=self.norm("self_attention/layer_norm"),
            qkv=self._tiled("self_attention/linear_0"),
            out=self._tiled("self_attention/linear_1"),
            mlp_norm=self.norm("ffn/layer_norm"),
            up=self._tiled("ffn/linear_0"),
            down=self._tiled("ffn/linear_1"),
            norm=self.norm("layer_norm"),
            heads=self.heads,
        )

    def _tiled(self, name: str) -> Tiled:
        weight = self.all_layers(f"{name}/weight")
        if weight.ndim == 4:  # a convolution: neighbours one after the other, each with all its channels
            weight = weight.swapaxes(2, 3).reshape(*weight.shape[:2], -1)
        return Tiled(weights_in_tiles(weight), self.all_layers(f"{name}/bias"))


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
        embedding = self.floats("decoder/embeddings/weight")
        return Weights(
            self_norm=self.norm("self_attention/layer_norm"),
            qkv=self._linear("self_attention/linear_0"),
            self_out=self._linear("self_attention/linear_1"),
            cross_norm=self.norm("attention/layer_norm"),
            query=self._linear("attention/linear_0"),
            cross_out=self._linear("attention/linear_2"),
            mlp_norm=self.norm("ffn/layer_norm"),
            up=self._linear("ffn/linear_0"),
            down=self._linear("ffn/linear_1"),
            norm=self.norm("layer_norm"),
            head=pack([np.pad(embedding, ((0, -len(embedding) % TILED_ROWS), (0, 0)))], tiled=True),
            vocabulary=len(embedding),
            positions=self.floats("decoder/position_encodings/encodings"),
            heads=self.heads,
        )

    def cross(self) -> tuple[Floats, Floats]:
        """Weights ``[layers, rows, width]`` and biases to every layer's keys and values of what was heard."""
        name = "attention/linear_1"
        return self.all_layers(f"{name}/weight"), self.all_layers(f"{name}/bias")

    def _linear(self, name: str) -> Linear:
        return Linear(pack(list(self.all_layers(f"{name}/weight")), tiled=True), self.all_layers(f"{name}/bias"))
