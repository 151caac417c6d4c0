from __future__ import annotations

import torch

from codec.chain import StateChain
from codec.memory import Said, SegmentEncoder
from codec.model import CodecConfig, StateEncoder
from codec.window import SegmentState
from tests.codec import tiny


def encoder() -> SegmentEncoder:
    torch.manual_seed(5)
    config = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=3)
    return SegmentEncoder(StateEncoder(config).requires_grad_(False))


def block(reader: SegmentEncoder, seed: int) -> tuple[SegmentState, ...]:
    draw = torch.Generator().manual_seed(seed)
    return reader.grow(Said(), torch.randn(9, 32, generator=draw)).segments


def test_however_long_a_recording_is_its_state_is_no_larger_than_a_window() -> None:
    reader = encoder()
    chain = StateChain(reader)
    for number in range(9):
        chain.push(block(reader, number))
    assert [segment.values.shape for segment in chain.state.segments] == [(3, 8)] * 3
    assert sum(segment.tokens for segment in chain.state.segments) == 81


def test_the_newest_segments_are_kept_as_they_are() -> None:
    reader = encoder()
    chain = StateChain(reader)
    for number in range(5):
        chain.push(block(reader, number))
    assert chain.state.segments[1:] == block(reader, 3) + block(reader, 4)


def test_the_first_block_still_tells_in_the_last_state() -> None:
    reader = encoder()
    chains = [StateChain(reader), StateChain(reader)]
    for first, chain in zip((100, 200), chains, strict=True):
        for number in (first, 1, 2, 3, 4):
            chain.push(block(reader, number))
    assert chains[0].state.segments[0] != chains[1].state.segments[0]


def test_a_chained_state_fits_the_model() -> None:
    injector, reader = tiny.attach(tiny.build("llama")), None
    reader = SegmentEncoder(injector.codec.encoder)
    chain = StateChain(reader)
    for number in range(5):
        chain.push(block(reader, number))
    assert injector.prepare([chain.state]) is not None
