"""A state through the upper layers of the lean model, once a turn: what codec/inject.py does by hooks."""

from __future__ import annotations

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from pipeline.backends.lean_llama import Layer, LeanLlama, Slots, rotated

Sink = tuple[torch.Tensor, torch.Tensor]  # keys and values of the first token: [layers, kv heads, 1, head width]


class SlotReader:
    """Makes slots of hidden states. The slots see the token that every prompt begins with, and each other."""

    def __init__(self, weights: LeanLlama, layer: int, sink_id: int) -> None:
        self._weights, self._layer = weights, layer
        decoder = weights.open()
        decoder.forward([sink_id], [0])
        self._sink_keys, self._sink_values = (held[layer:, :, :1].clone() for held in decoder.held)

    def read(self, hidden: torch.Tensor, positions: torch.Tensor, log_weights: torch.Tensor) -> Slots:
        """Slots of ``hidden [k, width]``, states at the input of layer L+1, at ``positions [k]``."""
        weights, found = self._weights, []
        turn = weights.rotation(positions)
        mask = torch.ones(len(hidden), len(hidden) + 1, dtype=torch.bool).tril(1)
        with torch.inference_mode():
            x = hidden
            for number, layer in enumerate(weights.layers[self._layer :]):
                queries, keys, values = self._projected(layer, x, turn)
                found.append((keys, values))
                keys = torch.cat((self._sink_keys[number], keys), 1)
                values = torch.cat((self._sink_values[number], values), 1)
                read = scaled_dot_product_attention(
                    queries[None], keys[None], values[None], attn_mask=mask, enable_gqa=True
                )[0]
                x = x + layer.out(read.transpose(0, 1).flatten(1))
                gate, up = layer.gate_up(rms_norm(x, x.shape[-1:], layer.norm_after, weights.epsilon)).chunk(2, -1)
                x = x + layer.down(silu(gate) * up)
            keys, values = (torch.stack(one) for one in zip(*found, strict=True))
        return Slots(self._layer, keys, values, log_weights)

    def _projected(
        self, layer: Layer, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, each ``[heads, k, head width]``."""
        weights = self._weights
        normed = rms_norm(x, x.shape[-1:], layer.norm_before, weights.epsilon)
        split = layer.qkv(normed).view(len(x), -1, weights.head_width)
        turned = rotated(split[:, : weights.heads + weights.kv_heads], *turn)
        parts = (
            turned[:, : weights.heads],
            turned[:, weights.heads :],
            split[:, weights.heads + weights.kv_heads :],
        )
        queries, keys, values = (part.transpose(0, 1) for part in parts)
        return queries, keys, values
