from __future__ import annotations

import pytest
import torch

from clients.codec_timeline import Stretch
from clients.recap import follow, in_blocks, render
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


def test_each_block_begins_with_the_state_of_all_before_it() -> None:
    torch.manual_seed(0)
    config = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=3)
    encoder = SegmentEncoder(StateEncoder(config).requires_grad_(False))
    before: list[int] = []

    def surprise(text: str, state: FusedState | None) -> float:
        if state is None:
            return 5.0
        before.append(sum(segment.tokens for segment in state.segments))
        return 4.0

    blocks = follow(said(12, 12, 12, 12, 12), lambda _: torch.randn(7, 32), surprise, encoder, StateChain(encoder))
    assert before == [0, 7, 14, 21, 28]
    assert {(block.alone_nats, block.chained_nats) for block in blocks} == {(5.0, 4.0)}
    assert render(blocks).row_count == 5
