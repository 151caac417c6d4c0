"""A lean decoder for Llama-shaped models on a processor: int8 weights, no module tree, a cache that stays put.

Decoding one token is bound by reading the weights once. This path reads a quarter of float32's bytes and spends
little time in between; on two cores it is about twice as fast as the stock model.

It has one more property that the product needs: every token's result depends on the tokens before it and on
nothing else, bit for bit. A matrix product of several rows usually rounds differently from the same rows one by
one, so a prompt that was read in other pieces may get another reply. torch's int8 product computes each row alike
however many there are, and attention here is computed row by row; so reading ahead, drafts and reopens cannot
change a reply.

Quantisation is symmetric, one scale an output row (LLM.int8(), Dettmers et al. 2022, without its outlier split).
What it costs in quality is measured in docs/performance.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

GROW_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Packed:
    """A weight ``[rows, columns]`` as int8, with one bfloat16 scale a row."""

    values: torch.Tensor
    scales: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The product with ``x [tokens, columns]``: float32 ``[tokens, rows]``."""
        import torch

        return torch._weight_int8pack_mm(x.bfloat16(), self.values, self.scales).float()


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer block, its projections fused."""

    norm_before: torch.Tensor
    qkv: Packed
    out: Packed
    norm_after: torch.Tensor
    gate_up: Packed
    down: Packed


@dataclass(frozen=True, slots=True)
class Slots:
    """A state as the layers from ``layer`` on see it: virtual positions in front of the tokens.

    ``keys`` and ``values`` are ``[upper layers, kv heads, k, head width]``; ``log_weights`` ``[k]`` are added to
    the attention's logits.
    """

    layer: int
    keys: torch.Tensor
    values: torch.Tensor
    log_weights: torch.Tensor


class LeanLlama:
    """The packed weights of one model; ``open`` gives each conversation its decoder."""

    def __init__(self, model: Any) -> None:
        """Pack a transformers Llama model, which is not needed afterwards."""
        import torch

        config = model.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_width = config.hidden_size // self.heads
        self.epsilon = config.rms_norm_eps
        self.embedding = model.model.embed_tokens.weight.detach().float()
        self.norm = model.model.norm.weight.detach().float()
        self.head = pack(model.lm_head.weight)
        self.layers = [_pack_layer(layer) for layer in model.model.layers]
        base = config.rope_parameters["rope_theta"]
        exponents = torch.arange(0, self.head_width, 2, dtype=torch.float32) / self.head_width
        self.frequencies = base**-exponents

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
            and getattr(config, "head_dim", None) in (None, config.hidden_size // config.num_attention_heads)
        )

    def rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine of the rotary embedding at ``positions [tokens]``, each ``[tokens, 1, head width]``."""
        angles = (positions[:, None].float() * self.frequencies).repeat(1, 2)[:, None]
        return angles.cos(), angles.sin()

    def open(self, room: int = 0, tap: int | None = None) -> LeanDecoder:
        """A decoder with an empty cache; ``room`` for so many slots, ``tap``: the layer whose input is kept."""
        return LeanDecoder(self, room, tap)


class LeanDecoder:
    """One conversation's keys and values, ``[layers, kv heads, room + tokens, head width]``, growing by steps.

    The room in front of the tokens holds the keys and values of a state's slots, right-aligned, so that slots and
    tokens are one stretch of memory and a state costs no copying. ``states`` are the new tokens' inputs ``[tokens,
    width]`` to the tapped layer, after each ``forward``.
    """

    def __init__(self, weights: LeanLlama, room: int = 0, tap: int | None = None) -> None:
        self._weights = weights
        self._room, self._tap = room, tap
        self._length = 0
        self._keys, self._values = self._buffers(GROW_TOKENS)
        self._slots: Slots | None = None
        self._bias: torch.Tensor | None = None  # [room + tokens]: the slots' log-weights, 0 for every token
        self._masks: list[torch.Tensor] = []  # of the tokens being read: what each adds to its logits
        self.states: torch.Tensor | None = None

    def forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        """Read new tokens; returns the logits ``[len(wanted), vocabulary]`` after the wanted ones."""
        import torch
        from torch.nn.functional import rms_norm

        weights = self._weights
        if self._room + self._length + len(ids) > self._keys.shape[2]:
            self._grow(self._length + len(ids) + GROW_TOKENS)
        with torch.inference_mode():
            x = weights.embedding[ids]  # [tokens, width]
            turn = weights.rotation(torch.arange(self._length, self._length + len(ids)))
            self._masks = self._slot_masks(len(ids))
            for number, layer in enumerate(weights.layers):
                if number == self._tap:
                    self.states = x
                x = x + layer.out(self._attend(number, layer.qkv(self._normed(x, layer.norm_before)), turn))
                x = x + layer.down(_gated(layer.gate_up(self._normed(x, layer.norm_after))))
            self._length += len(ids)
            self._masks = []
            last = rms_norm(x[wanted], x.shape[-1:], weights.norm, weights.epsilon)
            return weights.head(last)

    @property
    def held(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the tokens read, each ``[layers, kv heads, tokens, head width]``."""
        until = self._room + self._length
        return self._keys[:, :, self._room : until], self._values[:, :, self._room : until]

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self._length = length

    def inject(self, slots: Slots | None) -> None:
        """What follows sees these slots, at most as many as there is room for; None: the model as it is."""
        self._slots = slots
        self._clear_room()
        if slots is None:
            self._bias = None
            return
        begin = self._first
        self._keys[slots.layer :, :, begin : self._room] = slots.keys
        self._values[slots.layer :, :, begin : self._room] = slots.values
        self._bias = self._keys.new_zeros(self._keys.shape[2])
        self._bias[begin : self._room] = slots.log_weights

    def wipe(self) -> None:
        """Overwrite with zeros what was cropped, and the slots."""
        self.inject(None)
        self.states = None
        self._keys[:, :, self._room + self._length :] = 0
        self._values[:, :, self._room + self._length :] = 0

    def _clear_room(self) -> None:
        self._keys[:, :, : self._room] = 0
        self._values[:, :, : self._room] = 0

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import rms_norm

        return rms_norm(x, x.shape[-1:], weight, self._weights.epsilon)

    def _attend(self, number: int, qkv: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Causal attention of the new tokens, one by one so that the result does not depend on their number."""
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        weights, tokens, begin = self._weights, len(qkv), self._room + self._length
        split = qkv.view(tokens, weights.heads + 2 * weights.kv_heads, weights.head_width)
        turned = rotated(split[:, : weights.heads + weights.kv_heads], *turn)
        keys, values = self._keys[number], self._values[number]
        keys[:, begin : begin + tokens] = turned[:, weights.heads :].transpose(0, 1)
        values[:, begin : begin + tokens] = split[:, weights.heads + weights.kv_heads :].transpose(0, 1)
        with_slots = self._slots is not None and number >= self._slots.layer
        first = self._first if with_slots else self._room
        # The query heads that share a key head are the rows of one product: [1, kv heads, heads of each, width].
        queries = turned[:, : weights.heads].reshape(tokens, 1, weights.kv_heads, -1, weights.head_width)
        rows = [
            scaled_dot_product_attention(
                queries[row],
                keys[None, :, first : begin + row + 1],
                values[None, :, first : begin + row + 1],
                attn_mask=self._masks[row] if with_slots else None,
            ).reshape(1, -1)
            for row in range(tokens)
        ]
        return torch.cat(rows) if tokens > 1 else rows[0]

    @property
    def _first(self) -> int:
        """Where in the buffers the slots begin."""
        return self._room - (len(self._slots.log_weights) if self._slots else 0)

    def _slot_masks(self, tokens: int) -> list[torch.Tensor]:
        """One mask ``[1, 1, 1, slots + tokens so far]`` a new token, made once for all layers that see slots."""
        if self._bias is None:
            return []
        end = self._room + self._length + 1
        return [self._bias[None, None, None, self._first : end + row] for row in range(tokens)]

    def _grow(self, capacity: int) -> None:
        keys, values = self._buffers(capacity)
        held = self._room + self._length
        keys[:, :, :held] = self._keys[:, :, :held]
        values[:, :, :held] = self._values[:, :, :held]
        self._keys.zero_()
        self._values.zero_()
        self._keys, self._values = keys, values
        self.inject(self._slots)

    def _buffers(self, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        weights = self._weights
        shape = (len(weights.layers), weights.kv_heads, self._room + capacity, weights.head_width)
        return torch.zeros(shape), torch.zeros(shape)


def pack(weight: torch.Tensor) -> Packed:
    """Symmetric int8 with one scale a row."""
    import torch

    full = weight.detach().float()
    scales = (full.abs().amax(dim=1) / 127).clamp_min(1e-12).bfloat16()
    values = (full / scales.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
    return Packed(values.contiguous(), scales)


def _pack_layer(layer: Any) -> Layer:
    import torch

    attention, mlp = layer.self_attn, layer.mlp
    return Layer(
        norm_before=layer.input_layernorm.weight.detach().float(),
        qkv=pack(torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])),
        out=pack(attention.o_proj.weight),
        norm_after=layer.post_attention_layernorm.weight.detach().float(),
        gate_up=pack(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])),
        down=pack(mlp.down_proj.weight),
    )


def rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (Su et al. 2021), halves paired as Llama pairs them."""
    import torch

    half = x.shape[-1] // 2
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sine


def _gated(gate_up: torch.Tensor) -> torch.Tensor:
    from torch.nn.functional import silu

    gate, up = gate_up.chunk(2, dim=-1)
    return silu(gate) * up
