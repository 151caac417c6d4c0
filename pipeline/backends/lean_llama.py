"""A lean decoder for Llama-shaped models on a processor: int8 weights, one core, a cache that stays put.

Decoding one token is bound by reading the weights once. This path reads a quarter of float32's bytes, nearly as
fast as one core can read, and leaves the other cores to the ears and the voice (docs/performance.md).

It has one more property that the product needs: every token's result depends on the tokens before it and on
nothing else, bit for bit. A matrix product of several rows usually rounds differently from the same rows one by
one, so a prompt that was read in other pieces may get another reply. Here products are sums of integers and
attention goes token by token; so reading ahead, drafts and reopens cannot change a reply.

Quantisation is symmetric, one scale an output row (LLM.int8(), Dettmers et al. 2022, without its outlier split).
What it costs in quality is measured in docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pipeline.backends.bfloats import Bfloats
from pipeline.backends.decoders import Piece
from pipeline.backends.dot_products import LANES
from pipeline.backends.kernels import Floats, pack
from pipeline.backends.lean_kernels import Caches, Indexes, Weights, predict, read
from pipeline.backends.tiles import TILE_TOKENS, usable

if TYPE_CHECKING:
    import torch

GROW_TOKENS = 256
USUAL_ROWS = 4  # that the kernels multiply side by side
NO_SLOTS = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Slots:
    """A state as the layers from ``layer`` on see it: virtual positions in front of the tokens.

    ``keys`` and ``values`` are ``[upper layers, kv heads, k, head width]``; ``log_weights`` ``[k]`` are added to
    the attention's logits.
    """

    layer: int
    keys: Bfloats
    values: Bfloats
    log_weights: Floats


class LeanLlama:
    """The packed weights of one model; ``open`` gives each conversation its decoder."""

    def __init__(self, weights: Weights, embedding: Floats) -> None:
        self.weights, self.embedding = weights, embedding

    @classmethod
    def of(cls, model: Any) -> Self:
        """Pack a transformers Llama model, which is not needed afterwards."""
        config, layers = model.config, model.model.layers
        width = config.hidden_size // config.num_attention_heads
        exponents = np.arange(0, width, 2, dtype=np.float32) / width
        attentions, mlps = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
        packed = partial(pack, tiled=True)
        weights = Weights(
            norm_before=np.stack([_floats(layer.input_layernorm) for layer in layers]),
            qkv=packed([_fused(one.q_proj, one.k_proj, one.v_proj) for one in attentions]),
            out=packed([_floats(one.o_proj) for one in attentions]),
            norm_after=np.stack([_floats(layer.post_attention_layernorm) for layer in layers]),
            gate_up=packed([_fused(one.gate_proj, one.up_proj) for one in mlps]),
            down=packed([_floats(one.down_proj) for one in mlps]),
            norm=_floats(model.model.norm),
            head=packed([_floats(model.lm_head)]),
            frequencies=np.float32(config.rope_parameters["rope_theta"]) ** -exponents,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            epsilon=config.rms_norm_eps,
        )
        return cls(weights, _floats(model.model.embed_tokens))

    @staticmethod
    def supports(model: Any) -> bool:
        """Whether the model is of this shape: plain Llama."""
        config = model.config
        return (
            config.model_type == "llama"
            and not config.attention_bias
            and not config.mlp_bias
            and config.hidden_act == "silu"
            and config.rope_parameters.get("rope_type") == "default"
            and config.hidden_size % LANES == 0
            and config.intermediate_size % LANES == 0
            and getattr(config, "head_dim", None) in (None, config.hidden_size // config.num_attention_heads)
        )

    @property
    def rows_at_once(self) -> int:
        """How many rows a step reads at little more than the price of one."""
        return TILE_TOKENS if usable() else USUAL_ROWS

    def forward(self, pieces: Sequence[Piece[LeanDecoder]]) -> list[torch.Tensor]:
        """Read new tokens of several decoders, all opened alike, in one pass over the weights.

        Returns each one's logits ``[len(wanted), vocabulary]`` after the wanted ones of its tokens.
        """
        import torch

        x = self.embedding[[one for piece in pieces for one in piece.ids]]  # [rows, width], a copy
        positions = [piece.decoder.length + at for piece in pieces for at in range(len(piece.ids))]
        states = self.read(x, np.array(positions), [(piece.decoder, len(piece.ids)) for piece in pieces])
        begins = list(accumulate((len(piece.ids) for piece in pieces), initial=0))
        wanted = [begin + one for begin, piece in zip(begins, pieces, strict=False) for one in piece.wanted]
        logits = torch.from_numpy(predict(x[wanted], self.weights))
        for piece, (begin, end) in zip(pieces, pairwise(begins), strict=True):
            piece.decoder.took(end - begin, states[begin:end])
        return list(torch.split(logits, [len(piece.wanted) for piece in pieces]))

    def read(
        self, x: Floats, positions: Indexes, takers: Sequence[tuple[LeanDecoder, int]], first: int = 0
    ) -> Floats:
        """Take rows ``x [rows, width]`` through the layers from ``first`` on, in place.

        Their keys and values go behind what these decoders hold, of so many rows each. Returns the tapped layer's
        inputs.
        """
        for decoder, rows in takers:
            decoder.make_room(rows)
        states: Floats = read(x, positions, _caches(takers), first, takers[0][0].tap, self.weights)
        return states

    def open(self, room: int = 0, tap: int = -1) -> LeanDecoder:
        """A decoder with an empty cache; ``room`` for so many slots, ``tap``: the layer whose input is kept."""
        return LeanDecoder(self, room, tap)


class LeanDecoder:
    """One conversation's keys and values, ``[layers, kv heads, room + tokens, head width]``, growing by steps.

    They are bfloat16, because reading them is what a token costs in a long conversation. The room in front of
    the tokens is for a state's slots, right-aligned, so that slots and tokens are one stretch of memory and a
    state costs no copying. ``states`` are the inputs ``[tokens, width]`` of the tapped layer that the last tokens
    read had.
    """

    def __init__(self, model: LeanLlama, room: int = 0, tap: int = -1) -> None:
        self._model = model
        self.room, self.tap = room, tap
        self.length = 0
        self.keys, self.values = self._buffers(GROW_TOKENS)
        self.upper, self.log_weights = 0, NO_SLOTS
        self.states: torch.Tensor | None = None

    def forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        """Read new tokens; returns the logits ``[len(wanted), vocabulary]`` after the wanted ones."""
        return self._model.forward([Piece(self, ids, wanted)])[0]

    def make_room(self, tokens: int) -> None:
        """Grow by steps, so that so many more tokens fit in."""
        if self.room + self.length + tokens > self.keys.shape[2]:
            self._grow(self.length + tokens + GROW_TOKENS)

    def took(self, tokens: int, states: Floats) -> None:
        """So many tokens were read; ``states`` are their inputs of the tapped layer."""
        import torch

        self.length += tokens
        # A copy: whoever overwrites its states must reach all of them, and nobody else's.
        self.states = torch.from_numpy(states.copy()) if self.tap >= 0 else None

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self.length = length

    def inject(self, slots: Slots | None) -> None:
        """What follows sees these slots, at most as many as there is room for; None: the model as it is."""
        self.keys[:, :, : self.room] = self.values[:, :, : self.room] = 0
        self.upper, self.log_weights = 0, NO_SLOTS
        if slots is not None:
            self.upper, self.log_weights = slots.layer, slots.log_weights
            taken = slice(self.room - len(slots.log_weights), self.room)
            self.keys[slots.layer :, :, taken] = slots.keys
            self.values[slots.layer :, :, taken] = slots.values

    def slots(self, hidden: Floats, positions: Indexes, log_weights: Floats, layer: int) -> Slots:
        """Slots of ``hidden [k, width]``, states at the input of a layer, at ``positions [k]``; none of it stays.

        They see the tokens read so far and the slots before them: what codec/inject.py does.
        """
        self._model.read(hidden.copy(), positions, [(self, len(hidden))], layer)
        end = self.room + self.length
        keys, values = (each[layer:, :, end : end + len(hidden)].copy() for each in (self.keys, self.values))
        self.wipe()
        return Slots(layer, keys, values, log_weights)

    def wipe(self) -> None:
        """Overwrite with zeros what was cropped, and the slots."""
        self.inject(None)
        self.states = None
        end = self.room + self.length
        self.keys[:, :, end:] = self.values[:, :, end:] = 0

    def _grow(self, capacity: int) -> None:
        keys, values = self._buffers(capacity)
        end = self.room + self.length
        for new, old in ((keys, self.keys), (values, self.values)):
            new[:, :, :end] = old[:, :, :end]
            old[:] = 0  # what is left behind must not outlive its turn
        self.keys, self.values = keys, values

    def _buffers(self, capacity: int) -> tuple[Bfloats, Bfloats]:
        weights = self._model.weights
        layers, rows, _ = weights.qkv.values.shape
        width = rows // (weights.heads + 2 * weights.kv_heads)
        shape = (layers, weights.kv_heads, self.room + capacity, width)
        return np.zeros(shape, np.uint16), np.zeros(shape, np.uint16)


def _caches(takers: Sequence[tuple[LeanDecoder, int]]) -> Caches:
    """Where so many new rows of each decoder go."""
    decoders = [decoder for decoder, _ in takers]
    room = decoders[0].room
    log_weights = np.zeros((len(decoders), room), np.float32)
    for one, decoder in zip(log_weights, decoders, strict=True):
        one[: len(decoder.log_weights)] = decoder.log_weights
    return Caches(
        begins=np.array([0, *accumulate(rows for _, rows in takers)]),
        keys=np.array([decoder.keys.ctypes.data for decoder in decoders]),
        values=np.array([decoder.values.ctypes.data for decoder in decoders]),
        capacities=np.array([decoder.keys.shape[2] for decoder in decoders]),
        ends=np.array([room + decoder.length for decoder in decoders]),
        room=room,
        uppers=np.array([decoder.upper for decoder in decoders]),
        slots=np.array([len(decoder.log_weights) for decoder in decoders]),
        log_weights=log_weights,
    )


def _fused(*modules: Any) -> Floats:
    return np.concatenate([_floats(one) for one in modules])


def _floats(module: Any) -> Floats:
    weight: Floats = module.weight.detach().float().numpy()
    return weight
