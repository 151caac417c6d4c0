from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache

from codec.inject import Injector
from codec.model import CodecConfig, CodecError, StateCodec
from tests.codec import tiny

families = pytest.mark.parametrize("family", tiny.FAMILIES)
modes = pytest.mark.parametrize("mode", ["attention_slots", "cross_attention", "additive"])


@families
def test_an_empty_window_gives_the_base_model_bit_for_bit(family: str) -> None:
    model, tokens = tiny.build(family), tiny.ids(9)
    base = tiny.run(model, tokens)
    injector = tiny.attach(model)
    assert injector.prepare([None]) is None
    assert injector.prepare([tiny.state(segments=0)]) is None
    with injector.active(injector.prepare([None])):
        assert torch.equal(tiny.run(model, tokens), base)


@families
def test_an_attached_codec_that_is_not_used_changes_nothing(family: str) -> None:
    model, tokens = tiny.build(family), tiny.ids(9)
    base = tiny.run(model, tokens)
    tiny.attach(model)
    assert torch.equal(tiny.run(model, tokens), base)


@families
def test_detaching_leaves_the_model_identical(family: str) -> None:
    model, tokens = tiny.build(family), tiny.ids(9)
    base, modules = tiny.run(model, tokens), list(model.modules())
    injector = tiny.attach(model)
    with injector.active(injector.prepare([tiny.state()])):
        tiny.run(model, tokens)
    injector.detach()
    assert torch.equal(tiny.run(model, tokens), base)
    assert list(model.modules()) == modules
    assert not any(module._forward_pre_hooks for module in modules)


@modes
@families
def test_a_state_changes_what_the_model_says(family: str, mode: str) -> None:
    model, tokens = tiny.build(family), tiny.ids(9)
    injector = tiny.attach(model, fusion_mode=mode)
    base = tiny.run(model, tokens)
    with injector.active(injector.prepare([tiny.state()])):
        assert not torch.allclose(tiny.run(model, tokens), base, atol=1e-5)


@modes
@families
def test_token_by_token_equals_all_at_once(family: str, mode: str) -> None:
    model, tokens = tiny.build(family), tiny.ids(12)
    injector = tiny.attach(model, fusion_mode=mode)
    injection, cache = injector.prepare([tiny.state()]), DynamicCache(config=model.config)
    with injector.active(injection):
        whole = tiny.run(model, tokens)
        pieces = [tiny.run(model, tokens[:, :5], cache)]
        pieces += [tiny.run(model, tokens[:, at : at + 1], cache) for at in range(5, 12)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma"])
def test_a_cropped_cache_goes_on_as_if_the_rest_had_never_been(family: str, kernel: str) -> None:
    model, tokens, other = tiny.build(family, kernel), tiny.ids(10), tiny.ids(10, seed=5)
    injector = tiny.attach(model)
    injection = injector.prepare([tiny.state()])
    cache, fresh = DynamicCache(config=model.config), DynamicCache(config=model.config)
    with injector.active(injection):
        tiny.run(model, tokens[:, :6], cache)
        tiny.run(model, tokens[:, 6:], cache)
        cache.crop(-4)
        resumed = tiny.run(model, other[:, 6:], cache)
        tiny.run(model, tokens[:, :6], fresh)
        expected = tiny.run(model, other[:, 6:], fresh)
    assert torch.equal(resumed, expected)


def test_the_cache_holds_the_tokens_alone() -> None:
    model = tiny.build("llama")
    injector, cache = tiny.attach(model), DynamicCache(config=model.config)
    with injector.active(injector.prepare([tiny.state()])):
        tiny.run(model, tiny.ids(6), cache)
        tiny.run(model, tiny.ids(1), cache)
    assert [layer.keys.shape[-2] for layer in cache.layers] == [7] * tiny.LAYERS


def test_the_state_may_change_from_call_to_call_on_one_cache() -> None:
    model, tokens = tiny.build("llama"), tiny.ids(8)
    injector, cache = tiny.attach(model), DynamicCache(config=model.config)
    with injector.active(injector.prepare([tiny.state()])):
        tiny.run(model, tokens[:, :6], cache)
    with injector.active(None):
        tiny.run(model, tokens[:, 6:7], cache)
    with injector.active(injector.prepare([tiny.state(3, segments=1)])):
        assert tiny.run(model, tokens[:, 7:], cache).isfinite().all()


@modes
@families
def test_rows_of_a_batch_read_their_own_state_only(family: str, mode: str) -> None:
    model, tokens = tiny.build(family), tiny.ids(7, rows=3)
    injector = tiny.attach(model, fusion_mode=mode)
    states = [tiny.state(1), None, tiny.state(2, segments=3)]
    with injector.active(injector.prepare(states)):
        together = tiny.run(model, tokens)
    for row, one in enumerate(states):
        with injector.active(injector.prepare([one])):
            alone = tiny.run(model, tokens[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, atol=2e-5, rtol=1e-4)


@families
def test_resuming_from_tapped_states_equals_the_whole_model(family: str) -> None:
    model, tokens = tiny.build(family), tiny.ids(8)
    injector = tiny.attach(model)
    injection = injector.prepare([tiny.state()])
    with injector.active(injection) as tap:
        whole = tiny.run(model, tokens)
    with injector.resuming(tap.states, injection):
        resumed = tiny.run(model, torch.zeros_like(tokens))
    torch.testing.assert_close(resumed, whole)


def test_the_tap_collects_what_a_state_has_not_touched() -> None:
    model, tokens = tiny.build("llama"), tiny.ids(8)
    injector = tiny.attach(model, fusion_mode="additive")
    with injector.active(None) as plain:
        tiny.run(model, tokens)
    with injector.active(injector.prepare([tiny.state()])) as fused:
        tiny.run(model, tokens)
    assert torch.equal(plain.states, fused.states)


def test_a_gain_is_the_same_for_all_slots_that_hold_something() -> None:
    injector = tiny.attach(tiny.build("llama"))
    torch.nn.init.constant_(injector.codec.decoder.gain, 0.5)
    both = injector.prepare([tiny.state(segments=2), tiny.state(segments=1)])
    assert both is not None
    assert both.log_weights[0, -1] == 0.5
    assert both.log_weights[1, -1] == 0.5
    assert both.log_weights[1, 0] == -torch.inf


def test_a_heavier_segment_is_read_more() -> None:
    model, tokens = tiny.build("llama"), tiny.ids(6)
    injector = tiny.attach(model)
    light = injector.prepare([tiny.state(segments=2)])
    assert light is not None
    newest, older = light.log_weights[0, -1], light.log_weights[0, 0]
    assert newest == injector.codec.decoder.gain
    assert older - newest == pytest.approx(torch.tensor(0.7).log().item())
    assert tiny.run(model, tokens).isfinite().all()


def test_a_codec_of_another_width_is_refused_with_both_sides_named() -> None:
    codec = StateCodec(CodecConfig(d_model=48, layer=2))
    with pytest.raises(CodecError, match=r"d_model 48.*d_model 32"):
        Injector(tiny.build("llama"), codec, tiny.SINK)


def test_a_window_larger_than_the_codec_was_trained_for_is_refused() -> None:
    injector = tiny.attach(tiny.build("llama"))
    with pytest.raises(CodecError, match="4 segments do not fit"):
        injector.prepare([tiny.state(segments=4)])


def test_two_calls_at_once_are_refused() -> None:
    injector = tiny.attach(tiny.build("llama"))
    with injector.active(None), pytest.raises(CodecError, match="one call at a time"), injector.active(None):
        pass
