from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.health import Calibration
from codec.memory import EchoicMemory
from codec.model import CodecConfig, StateEncoder
from codec.window import StateWindow

CONFIG = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=3)


def states(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 32, generator=torch.Generator().manual_seed(seed))


def encoder() -> StateEncoder:
    torch.manual_seed(5)
    return StateEncoder(CONFIG).requires_grad_(False)


def memory(warnings: list[str] | None = None, **window: float) -> EchoicMemory:
    made = encoder()
    segments = [made(states(9, seed)[None], torch.ones(1, 9))[0][0] for seed in range(100, 160)]
    warn = [].append if warnings is None else warnings.append
    return EchoicMemory(made, Calibration.measure(segments), StateWindow(**window), warn)  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_chunks_make_the_segment_that_one_piece_makes(chunks: list[int]) -> None:
    heard, pieces, whole = states(sum(chunks)), memory(segment_tokens=20), memory(segment_tokens=20)
    for part in heard.split(chunks):
        pieces.push(part, 0.0)
    whole.push(heard, 0.0)
    for one in (pieces, whole):
        one.close_segment(0.0)
    mine, theirs = pieces.fused(0.0), whole.fused(0.0)
    assert [segment.tokens for segment in mine.segments] == [segment.tokens for segment in theirs.segments]
    for one_segment, other in zip(mine.segments, theirs.segments, strict=True):
        torch.testing.assert_close(one_segment.slots, other.slots, atol=2 * other.scale + 1e-6, rtol=0)


def test_a_reply_knows_what_was_finished_before_it_only() -> None:
    one = memory()
    one.push(states(5), 0.0)
    assert one.fused(0.1).segments == ()
    one.close_segment(0.2)
    assert len(one.fused(0.3).segments) == 1


def test_a_dropped_draft_leaves_the_memory_as_it_was() -> None:
    one, straight = memory(), memory()
    for each in (one, straight):
        each.push(states(5), 0.0)
    before = one.snapshot()
    one.push(states(4, 1), 0.2)
    one.close_segment(0.3)
    one.restore(before, 0.4)
    for each in (one, straight):
        each.push(states(3, 2), 0.5)
        each.close_segment(0.6)
    assert one.fused(0.7) == straight.fused(0.7)


def test_nothing_is_left_after_three_seconds_in_which_neither_side_was_heard() -> None:
    one = memory()
    one.push(states(5), 0.0)
    one.close_segment(0.2)
    one.push(states(5), 0.4)
    held = one.snapshot()
    assert held.growing is not None
    assert one.expire(3.4)
    assert one.fused(3.4).segments == ()
    assert not any(segment.values.any() for segment in (*held.window.closed, held.window.open) if segment)
    assert not held.growing.sums.any()


def test_words_after_the_expiry_begin_a_segment_of_their_own() -> None:
    one, fresh = memory(), memory()
    one.push(states(5), 0.0)
    for each in (one, fresh):
        each.push(states(4, 1), 5.0)
        each.close_segment(5.1)
    assert one.fused(5.2) == fresh.fused(5.2)


@pytest.mark.parametrize("spoil", [torch.nan, torch.inf])
def test_a_corrupted_state_is_dropped_counted_and_warned_about_once(spoil: float) -> None:
    warnings: list[str] = []
    one = memory(warnings)
    for turn in range(2):
        one.push(states(5) * spoil, float(turn))
        one.close_segment(float(turn))
        assert one.fused(float(turn)).segments == ()
        assert one.health is not None
        assert one.health.fault
    assert one.dropped == 2
    assert len(warnings) == 1


def test_a_healthy_state_goes_on_being_used_after_a_sick_one() -> None:
    one = memory()
    one.push(states(5) * torch.nan, 0.0)
    one.close_segment(0.0)
    one.fused(0.1)
    one.push(states(9, 101), 0.2)
    one.close_segment(0.3)
    assert len(one.fused(0.4).segments) == 1


def test_another_session_goes_on_from_segments_it_was_handed() -> None:
    one, other = memory(), memory()
    for number in range(2):
        one.push(states(6, number), number * 0.5)
        one.close_segment(number * 0.5)
    sent = one.fused(1.0)
    other.receive(sent.segments, 2.0)
    assert other.fused(2.5) == sent
    one.clear()
    assert other.fused(2.5) != sent
    assert all(segment.values.any() for segment in other.fused(2.5).segments)


def test_sessions_share_nothing() -> None:
    one, other = memory(), memory()
    one.push(states(5), 0.0)
    one.close_segment(0.0)
    assert other.fused(0.0).segments == ()
