"""The lean decoder: the model's own answers, and every token's result the same however the prompt came in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from codec.inject import Injector
from codec.model import StateCodec
from codec.window import FusedState
from pipeline.backends.decoders import StockDecoder
from pipeline.backends.injection import LeanInjection
from pipeline.backends.kernels import WEIGHT_LEVELS, multiply, pack, project, quantised_rows
from pipeline.backends.lean_llama import GROW_TOKENS, LeanLlama
from pipeline.backends.tiles import usable
from tests.pipeline.tiny_llama import SHAPE, a_state, tiny_codec, tiny_llama

IDS = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43, 38, 32, 79]


@pytest.fixture(scope="module")
def tiny() -> LlamaForCausalLM:
    return tiny_llama()


def last_logits(decoder, pieces: list[list[int]]) -> torch.Tensor:
    return [decoder.forward(piece, [len(piece) - 1]) for piece in pieces][-1]


def test_it_computes_what_the_stock_model_computes_but_for_rounding(tiny: LlamaForCausalLM) -> None:
    lean, stock = last_logits(LeanLlama.of(tiny).open(), [IDS]), last_logits(StockDecoder(tiny), [IDS])
    assert cosine_similarity(lean, stock).item() > 0.999


@pytest.mark.parametrize("cut", [1, 2, 7, 15])
def test_a_prompt_read_in_pieces_gives_the_same_bits_as_the_whole(tiny: LlamaForCausalLM, cut: int) -> None:
    weights = LeanLlama.of(tiny)
    whole = last_logits(weights.open(), [IDS])
    assert torch.equal(last_logits(weights.open(), [IDS[:cut], IDS[cut:]]), whole)
    assert torch.equal(last_logits(weights.open(), [[one] for one in IDS]), whole)


def test_what_was_cropped_leaves_no_trace(tiny: LlamaForCausalLM) -> None:
    weights = LeanLlama.of(tiny)
    decoder = weights.open()
    decoder.forward([*IDS[:4], 99, 98, 97], [6])
    decoder.crop(4)
    assert torch.equal(last_logits(decoder, [IDS[4:]]), last_logits(weights.open(), [IDS]))


def test_the_cache_grows_without_changing_a_bit(tiny: LlamaForCausalLM) -> None:
    weights = LeanLlama.of(tiny)
    long = (IDS * (GROW_TOKENS // len(IDS) + 2))[: GROW_TOKENS + 20]
    grown = last_logits(weights.open(), [long[: GROW_TOKENS - 3], long[GROW_TOKENS - 3 :]])
    assert torch.equal(grown, last_logits(weights.open(), [long]))


def test_a_conversation_keeps_two_bytes_a_number(tiny: LlamaForCausalLM) -> None:
    decoder, shape = LeanLlama.of(tiny).open(), tiny.config
    numbers = shape.num_hidden_layers * shape.num_key_value_heads * GROW_TOKENS * shape.head_dim
    assert decoder.keys.nbytes == decoder.values.nbytes == 2 * numbers


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


@pytest.mark.parametrize("tokens", [1, 4, 7])
@pytest.mark.parametrize("rows", [4, 9, 5000])
def test_products_are_exact_for_every_number_of_tokens_and_rows(tokens: int, rows: int) -> None:
    numbers = np.random.default_rng(0)
    x = numbers.integers(-2047, 2048, (tokens, 96)).astype(np.int16)
    weight = numbers.integers(-127, 128, (rows, 96)).astype(np.int8)
    out = np.empty((tokens, rows), np.float32)
    multiply(x, np.ones(tokens, np.float32), weight, np.ones(rows, np.float32), out)
    assert np.array_equal(out, (x.astype(np.int64) @ weight.T.astype(np.int64)).astype(np.float32))


@pytest.mark.skipif(not usable(), reason="the processor has no unit for tiles")
@pytest.mark.parametrize("tokens", [1, 7, 8, 19])
def test_products_of_tiles_are_the_bits_of_dot_products(tokens: int) -> None:
    numbers = np.random.default_rng(0)
    weight = numbers.standard_normal((128, 192)).astype(np.float32)
    x = numbers.standard_normal((tokens, 192)).astype(np.float32)
    in_tiles, in_rows = np.empty((2, tokens, 128), np.float32)
    project(x, pack([weight], tiled=True), 0, in_tiles)
    project(x, pack([weight]), 0, in_rows)
    assert pack([weight], tiled=True).tiled
    assert np.array_equal(in_tiles, in_rows)


def test_models_of_another_shape_are_left_to_the_stock_decoder() -> None:
    assert not LeanLlama.supports(Qwen2ForCausalLM(Qwen2Config(**SHAPE)))
    assert not LeanLlama.supports(LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True)))
    assert not LeanLlama.supports(LlamaForCausalLM(LlamaConfig(**SHAPE | {"intermediate_size": 100})))


def with_codec(model: LlamaForCausalLM) -> tuple[Injector, StateCodec]:
    codec = tiny_codec()
    return Injector(model, codec, IDS[0]), codec


def test_with_a_state_it_computes_what_the_stock_model_computes_but_for_rounding(tiny: LlamaForCausalLM) -> None:
    injector, codec = with_codec(tiny)
    weights = LeanLlama.of(tiny)
    decoder = weights.open(room=9)
    decoder.inject(LeanInjection(weights, codec, IDS[0]).prepare(a_state()))
    lean, plain = last_logits(decoder, [IDS]), last_logits(weights.open(), [IDS])
    with injector.active(injector.prepare([a_state()])):
        stock = last_logits(StockDecoder(tiny), [IDS])
    injector.detach()
    assert cosine_similarity(lean, stock).item() > 0.999
    assert cosine_similarity(lean, plain).item() < 0.999


@pytest.mark.parametrize("cut", [1, 7, 15])
def test_with_a_state_pieces_give_the_same_bits_as_the_whole(tiny: LlamaForCausalLM, cut: int) -> None:
    weights = LeanLlama.of(tiny)
    slots = LeanInjection(weights, with_codec(tiny)[1], IDS[0]).prepare(a_state())
    whole, pieces = weights.open(room=9), weights.open(room=9)
    for decoder in (whole, pieces):
        decoder.inject(slots)
    assert torch.equal(last_logits(pieces, [IDS[:cut], IDS[cut:]]), last_logits(whole, [IDS]))


def test_with_an_empty_window_it_is_the_base_model_bit_for_bit(tiny: LlamaForCausalLM) -> None:
    weights = LeanLlama.of(tiny)
    injection = LeanInjection(weights, with_codec(tiny)[1], IDS[0])
    decoder = weights.open(room=9, tap=1)
    decoder.inject(injection.prepare(a_state()))
    decoder.forward(IDS, [0])
    decoder.crop(0)
    decoder.inject(injection.prepare(FusedState((), ())))
    assert torch.equal(last_logits(decoder, [IDS]), last_logits(weights.open(), [IDS]))


def test_the_tap_gives_what_the_stock_model_computes_there_but_for_rounding(tiny: LlamaForCausalLM) -> None:
    injector, _ = with_codec(tiny)
    decoder = LeanLlama.of(tiny).open(tap=1)
    decoder.forward(IDS, [0])
    with injector.active(None) as tap:
        StockDecoder(tiny).forward(IDS, [0])
    injector.detach()
    assert decoder.states is not None
    assert cosine_similarity(decoder.states, tap.states[0]).min() > 0.999


def test_what_is_wiped_is_zero_in_every_buffer(tiny: LlamaForCausalLM) -> None:
    weights = LeanLlama.of(tiny)
    decoder = weights.open(room=9, tap=1)
    decoder.inject(LeanInjection(weights, with_codec(tiny)[1], IDS[0]).prepare(a_state()))
    decoder.forward((IDS * 20)[: GROW_TOKENS + 20], [0])
    decoder.crop(0)
    decoder.wipe()
    held = [value for value in vars(decoder).values() if isinstance(value, np.ndarray | torch.Tensor)]
    assert len(held) > 2
    assert not any(numbers.any() for numbers in held)
