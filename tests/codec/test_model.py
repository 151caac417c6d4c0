from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.model import FUSION_MODES, CodecConfig, CodecError, StateCodec, StateEncoder, merge_neighbours

CONFIG = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=3, keep=0.5)


def encoder(config: CodecConfig = CONFIG) -> StateEncoder:
    torch.manual_seed(3)
    made = StateEncoder(config)
    torch.nn.init.normal_(made.salience.weight, std=0.3)
    return made.requires_grad_(False)


def hidden(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(1, count, 32, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 14), st.lists(st.integers(1, 13), max_size=4), st.integers(0, 9))
def test_pieces_make_the_slots_that_the_whole_makes(count: int, cuts: list[int], seed: int) -> None:
    made, states = encoder(), hidden(count, seed)
    whole = merge_neighbours(*made.empty(), *made.codes(states))
    edges = sorted({0, count, *(cut for cut in cuts if cut < count)})
    pieces = made.empty()
    for begin, end in itertools.pairwise(edges):
        pieces = merge_neighbours(*pieces, *made.codes(states[:, begin:end]))
    torch.testing.assert_close(pieces, whole)


def test_padding_on_the_left_leaves_no_mark() -> None:
    made, states = encoder(), hidden(7)
    padded = torch.cat([torch.randn(1, 4, 32), states], 1)
    slots, filled = made(padded, torch.tensor([[0.0] * 4 + [1.0] * 7]))
    expected, all_filled = made(states, torch.ones(1, 7))
    torch.testing.assert_close(slots, expected)
    assert torch.equal(filled, all_filled)


def test_a_short_segment_gets_a_slot_a_token() -> None:
    made, states = encoder(), hidden(2)
    slots, filled = made(states, torch.ones(1, 2))
    assert filled.tolist() == [[False, True, True]]
    codes, _ = made.codes(states)
    torch.testing.assert_close(slots[:, 1:], made.gate(codes))


def test_neighbours_that_differ_least_are_merged_first() -> None:
    codes = torch.tensor([[[0.0], [5.0], [5.1], [9.0]]])
    sums, mass = merge_neighbours(torch.zeros(1, 3, 1), torch.zeros(1, 3), codes, torch.ones(1, 4))
    assert mass.tolist() == [[1.0, 2.0, 1.0]]
    torch.testing.assert_close((sums[..., 0] / mass), torch.tensor([[0.0, 5.05, 9.0]]))


def test_tokens_of_little_mass_make_room_for_those_of_much() -> None:
    codes = torch.tensor([[[0.0], [4.0], [9.0], [13.0]]])
    _, mass = merge_neighbours(
        torch.zeros(1, 3, 1), torch.zeros(1, 3), codes, torch.tensor([[1.0, 1.0, 0.1, 0.1]])
    )
    torch.testing.assert_close(mass, torch.tensor([[1.0, 1.0, 0.2]]))


def test_the_gate_zeroes_the_share_it_is_told_to() -> None:
    slots, _ = encoder()(hidden(9), torch.ones(1, 9))
    assert (slots == 0).float().mean() == 0.5


def test_the_selection_of_the_gate_is_trained() -> None:
    made = StateEncoder(CONFIG)
    slots, _ = made(hidden(9), torch.ones(1, 9))
    slots.square().sum().backward()
    for name, weight in made.named_parameters():
        assert weight.grad is not None, name
    assert made.gate_slope.grad is not None
    assert made.gate_slope.grad.abs().sum() > 0
    assert made.salience.weight.grad is not None
    assert made.salience.weight.grad.abs().sum() > 0


def test_a_codec_starts_from_the_principal_components() -> None:
    """States that lie in a plane of c dimensions survive the way there and back."""
    config = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=40, keep=1.0)
    codec, basis = StateCodec(config), torch.randn(8, 32, generator=torch.Generator().manual_seed(1))
    states = torch.randn(300, 8, generator=torch.Generator().manual_seed(2)) @ basis
    states = torch.nn.functional.rms_norm(states, (32,))
    codec.start_from(states)
    codes, _ = codec.encoder.codes(states[None, :5])
    torch.testing.assert_close(codec.decoder.hidden(codes)[0], states[:5], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("mode", FUSION_MODES)
def test_every_way_of_fusion_is_trained_in_all_of_its_parts(mode: str) -> None:
    codec = StateCodec(CodecConfig(d_model=32, layer=2, slots=2, compression_ratio=1 / 4, fusion_mode=mode))  # type: ignore[arg-type]
    slots, log_weights = torch.randn(1, 6, 8), torch.zeros(1, 6)
    decoder = codec.decoder
    codec.start_from(torch.randn(64, 32))
    read = (
        decoder.hidden(slots) if mode == "attention_slots" else decoder(torch.randn(1, 4, 32), slots, log_weights)
    )
    read.square().sum().backward()
    unused = {name for name, weight in decoder.named_parameters() if weight.grad is None}
    assert all(name.startswith(("readers.1", "readers.2", "readers.3")) for name in unused)


def test_an_unknown_fusion_is_refused_by_naming_the_known_ones() -> None:
    with pytest.raises(CodecError, match="attention_slots, cross_attention, additive"):
        CodecConfig(d_model=32, layer=2, fusion_mode="channel_concat")  # type: ignore[arg-type]
