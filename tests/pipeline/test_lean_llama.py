"""The lean decoder: the model's own answers, and every token's result the same however the prompt came in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from pipeline.backends.decoders import StockDecoder
from pipeline.backends.lean_kernels import WEIGHT_LEVELS, quantised_rows
from pipeline.backends.lean_llama import GROW_TOKENS, LeanLlama, pack

SHAPE = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
IDS = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43, 38, 32, 79]


@pytest.fixture(scope="module")
def tiny() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()


def last_logits(decoder, pieces: list[list[int]]) -> torch.Tensor:
    return [decoder.forward(piece, [len(piece) - 1]) for piece in pieces][-1]


def test_it_computes_what_the_stock_model_computes_but_for_rounding(tiny: LlamaForCausalLM) -> None:
    lean, stock = last_logits(LeanLlama(tiny).open(), [IDS]), last_logits(StockDecoder(tiny), [IDS])
    assert torch.nn.functional.cosine_similarity(lean, stock).item() > 0.999


@pytest.mark.parametrize("cut", [1, 2, 7, 15])
def test_a_prompt_read_in_pieces_gives_the_same_bits_as_the_whole(tiny: LlamaForCausalLM, cut: int) -> None:
    weights = LeanLlama(tiny)
    whole = last_logits(weights.open(), [IDS])
    assert torch.equal(last_logits(weights.open(), [IDS[:cut], IDS[cut:]]), whole)
    assert torch.equal(last_logits(weights.open(), [[one] for one in IDS]), whole)


def test_what_was_cropped_leaves_no_trace(tiny: LlamaForCausalLM) -> None:
    weights = LeanLlama(tiny)
    decoder = weights.open()
    decoder.forward([*IDS[:4], 99, 98, 97], [6])
    decoder.crop(4)
    assert torch.equal(last_logits(decoder, [IDS[4:]]), last_logits(weights.open(), [IDS]))


def test_the_cache_grows_without_changing_a_bit(tiny: LlamaForCausalLM) -> None:
    weights = LeanLlama(tiny)
    long = (IDS * (GROW_TOKENS // len(IDS) + 2))[: GROW_TOKENS + 20]
    grown = last_logits(weights.open(), [long[: GROW_TOKENS - 3], long[GROW_TOKENS - 3 :]])
    assert torch.equal(grown, last_logits(weights.open(), [long]))


def test_packing_is_right_to_half_a_step(tiny: LlamaForCausalLM) -> None:
    weight = tiny.lm_head.weight.detach().numpy()
    packed = pack([weight])
    restored = packed.values[0] * packed.scales[0][:, None]
    assert (np.abs(restored - weight) <= packed.scales[0][:, None] * 0.5001).all()


def test_the_widest_sums_fit_their_integers() -> None:
    columns = 20_000
    largest = np.ones((1, columns), np.float32)
    quantised, scales = quantised_rows(largest)
    assert int(quantised[0].astype(np.int64).sum()) * WEIGHT_LEVELS < 2**31
    assert scales[0] * quantised[0, 0] == pytest.approx(1, rel=1e-6)


def test_models_of_another_shape_are_left_to_the_stock_decoder() -> None:
    assert not LeanLlama.supports(Qwen2ForCausalLM(Qwen2Config(**SHAPE)))
    assert not LeanLlama.supports(LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True)))
