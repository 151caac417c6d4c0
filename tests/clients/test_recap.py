from __future__ import annotations

import pytest
import torch

from clients.codec_timeline import Stretch
from clients.recap import first_again, follow, in_blocks, render
from codec.chain import StateChain
from codec.memory import SegmentEncoder
from codec.model import CodecConfig, StateEncoder
from codec.window import FusedState


def said(*seconds: float) -> list[Stretch]:
    """Stretches of so many seconds each, half a second apart."""
    begin, found = 0.0, []
    for number, length in enumerate(seconds):
        found.append(Stretch(begin, begin + length, f"word{number}"))
        begin += length + 0.5
    return found


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        ((12.0, 11.0), ["word0", "word1"]),
        ((4.0, 4.0, 4.0, 4.0), ["word0 word1 word2", "word3"]),
        ((), []),
    ],
)
def test_speech_is_joined_until_a_block_has_ten_seconds(seconds: tuple[float, ...], texts: list[str]) -> None:
    assert [block.text for block in in_blocks(said(*seconds))] == texts


@pytest.fixture
def encoder() -> SegmentEncoder:
    torch.manual_seed(0)
    config = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=3)
    return SegmentEncoder(StateEncoder(config).requires_grad_(False))


def tokens(state: FusedState | None) -> int:
    return sum(segment.tokens for segment in state.segments) if state else 0


def test_the_first_block_is_asked_for_again_behind_the_last_and_behind_all(encoder: SegmentEncoder) -> None:
    blocks, chain = said(12, 12, 12, 12, 12), StateChain(encoder)
    follow(blocks, lambda _: torch.randn(7, 32), lambda *_: 0.0, encoder, chain)
    asked: list[str] = []

    def surprise(text: str, state: FusedState | None) -> float:
        asked.append(text)
        return float(tokens(state))

    again = first_again(blocks, lambda _: torch.randn(7, 32), surprise, encoder, chain)
    assert again == {"nothing": 0, "the last block": 7, "the chain": 35}
    assert set(asked) == {"word0"}


def test_each_block_begins_with_the_state_of_all_before_it(encoder: SegmentEncoder) -> None:
    before: list[int] = []

    def surprise(text: str, state: FusedState | None) -> float:
        if state is None:
            return 5.0
        before.append(tokens(state))
        return 4.0

    blocks = follow(said(12, 12, 12, 12, 12), lambda _: torch.randn(7, 32), surprise, encoder, StateChain(encoder))
    assert before == [0, 7, 14, 21, 28]
    assert {(block.alone_nats, block.chained_nats) for block in blocks} == {(5.0, 4.0)}
    assert render(blocks).row_count == 5
