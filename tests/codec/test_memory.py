from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.health import Calibration
from codec.memory import EchoicMemory, Said, SegmentEncoder
from codec.model import CodecConfig, StateEncoder
from codec.window import SegmentState, StateWindow

CONFIG = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=3)


def states(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 32, generator=torch.Generator().manual_seed(seed))


def encoder() -> StateEncoder:
    torch.manual_seed(5)
    return StateEncoder(CONFIG).requires_grad_(False)


def said(*chunks: torch.Tensor, segment_tokens: int = 48) -> Sequence[SegmentState]:
    """A message, read chunk by chunk."""
    reader, message = SegmentEncoder(encoder(), segment_tokens), Said()
    for chunk in chunks:
        message = reader.grow(message, chunk)
    return message.segments


def memory(warnings: list[str] | None = None, **window: float) -> EchoicMemory:
    made = encoder()
    segments = [made(states(9, seed)[None], torch.ones(1, 9))[0][0] for seed in range(100, 160)]
    warn = [].append if warnings is None else warnings.append
    return EchoicMemory(Calibration.measure(segments), StateWindow(**window), warn)  # type: ignore[arg-type]


def told(one: EchoicMemory, now_s: float, count: int = 5, seed: int = 0) -> None:
    """A whole message."""
    one.hear(said(states(count, seed)), now_s)
    one.settle(now_s)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_chunks_make_the_segments_that_one_piece_makes(chunks: list[int]) -> None:
    heard = states(sum(chunks))
    pieces, whole = said(*heard.split(chunks), segment_tokens=20), said(heard, segment_tokens=20)
    assert [segment.tokens for segment in pieces] == [segment.tokens for segment in whole]
    for one_segment, other in zip(pieces, whole, strict=True):
        torch.testing.assert_close(one_segment.slots, other.slots, atol=2 * other.scale + 1e-6, rtol=0)


def test_a_long_message_fills_segments_to_their_limit() -> None:
    assert [segment.tokens for segment in said(states(45), segment_tokens=20)] == [20, 20, 5]


def test_a_reply_knows_what_was_finished_before_it_only() -> None:
    one = memory()
    one.hear(said(states(5)), 0.0)
    assert one.fused(0.1).segments == ()
    one.settle(0.2)
    assert len(one.fused(0.3).segments) == 1


def test_a_message_that_goes_on_over_several_segments_is_not_known_before_its_end() -> None:
    one = memory(segment_tokens=20)
    one.hear(said(states(45), segment_tokens=20), 0.0)
    assert one.fused(0.1).segments == ()
    one.settle(0.2)
    assert [segment.tokens for segment in one.fused(0.3).segments] == [20, 20, 5]


def test_more_words_replace_what_was_heard_of_the_message() -> None:
    one = memory()
    one.hear(said(states(5)), 0.0)
    one.hear(said(states(8)), 0.2)
    one.settle(0.4)
    assert one.fused(0.5).segments == tuple(said(states(8)))


def test_a_message_taken_back_leaves_the_memory_as_it_was() -> None:
    one, straight = memory(), memory()
    for each in (one, straight):
        told(each, 0.0)
    one.hear(said(states(99, 1)), 0.2)
    one.unhear(0.4)
    for each in (one, straight):
        told(each, 0.5, seed=2)
    assert one.fused(0.7) == straight.fused(0.7)


def test_a_cancelled_turn_leaves_the_memory_as_it_was() -> None:
    one, straight = memory(), memory()
    for each in (one, straight):
        told(each, 0.0)
    before = one.snapshot()
    told(one, 0.2, seed=1)
    one.restore(before, 0.4)
    for each in (one, straight):
        told(each, 0.5, seed=2)
    assert one.fused(0.7) == straight.fused(0.7)


def test_messages_that_are_still_there_as_text_are_left_out() -> None:
    one = memory()
    for number in range(3):
        one.hear([replace(segment, message=str(number)) for segment in said(states(5, number))], number * 0.1)
        one.settle(number * 0.1)
    assert [segment.message for segment in one.fused(0.5, but=("1", "2")).segments] == ["0"]


def test_nothing_is_left_after_three_seconds_in_which_neither_side_was_heard() -> None:
    one = memory(segment_tokens=20)
    told(one, 0.2)
    settled = one.snapshot().window.closed
    one.hear(said(states(80), segment_tokens=20), 0.4)  # pushes the first message out of the window
    held = one.snapshot().window
    assert one.expire(3.4)
    assert one.fused(3.4).segments == ()
    assert not any(segment.values.any() for segment in (*settled, *held.closed, held.open) if segment)


def test_words_after_the_expiry_begin_a_segment_of_their_own() -> None:
    one, fresh = memory(), memory()
    told(one, 0.0)
    for each in (one, fresh):
        told(each, 5.0, seed=1)
    assert one.fused(5.2) == fresh.fused(5.2)


@pytest.mark.parametrize("spoil", [torch.nan, torch.inf])
def test_a_corrupted_state_is_dropped_counted_and_warned_about_once(spoil: float) -> None:
    warnings: list[str] = []
    one = memory(warnings)
    for turn in range(2):
        one.hear(said(states(5) * spoil), float(turn))
        one.settle(float(turn))
        assert one.fused(float(turn)).segments == ()
        assert one.health is not None
        assert one.health.fault
    assert one.dropped == 2
    assert len(warnings) == 1


def test_a_healthy_state_goes_on_being_used_after_a_sick_one() -> None:
    one = memory()
    one.hear(said(states(5) * torch.nan), 0.0)
    one.settle(0.0)
    one.fused(0.1)
    told(one, 0.2, count=9, seed=101)
    assert len(one.fused(0.4).segments) == 1


def test_another_session_goes_on_from_segments_it_was_handed() -> None:
    one, other = memory(), memory()
    for number in range(2):
        told(one, number * 0.5, count=6, seed=number)
    sent = one.fused(1.0)
    other.receive(sent.segments, 2.0)
    assert other.fused(2.5) == sent
    one.clear()
    assert other.fused(2.5) != sent
    assert all(segment.values.any() for segment in other.fused(2.5).segments)


def test_sessions_share_nothing() -> None:
    one, other = memory(), memory()
    told(one, 0.0)
    assert other.fused(0.0).segments == ()
