"""A Llama so small that it answers at once, in the lean decoder, and a state for it."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from codec.model import CodecConfig, StateCodec
from codec.window import FusedState, SegmentState, fuse

SHAPE = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def tiny_llama() -> LlamaForCausalLM:
    """Random weights, the same each time."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()


def tiny_codec() -> StateCodec:
    """A codec for it."""
    torch.manual_seed(1)
    codec = StateCodec(CodecConfig(d_model=64, layer=1, compression_ratio=1 / 8, slots=3)).eval()
    torch.nn.init.constant_(codec.decoder.gain, 0.5)
    return codec


def a_state() -> FusedState:
    """What two segments left."""
    draw = torch.Generator().manual_seed(2)
    made = [SegmentState.of(3 * torch.randn(slots, 8, generator=draw), 5) for slots in (3, 2)]
    return fuse(tuple(made), 0.7)
