from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from codec.model import CodecError
from codec.window import SegmentState, StateWindow, WindowState, fuse


def segment(number: int, tokens: int = 5) -> SegmentState:
    return SegmentState.of(torch.full((2, 3), float(number + 1)), tokens)


@dataclass(frozen=True)
class Step:
    """One thing that happens to a window, some time after the one before."""

    kind: str
    after_s: float
    number: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["update", "close", "touch", "expire", "fuse"]),
        st.floats(0, 2.0) | st.just(3.5),
        st.integers(0, 50),
    ),
    max_size=25,
)


# Somebody was heard, whatever became of the words.
HEARD = {"update": "touch", "touch": "touch"}


def play(window: StateWindow, events: list[Step], now_s: float = 0.0) -> float:
    for event in events:
        now_s += event.after_s
        if event.kind == "update":
            window.update(segment(event.number), now_s)
        else:
            {
                "close": window.close_segment,
                "touch": window.touch,
                "expire": window.expire,
                "fuse": window.fuse,
            }[event.kind](now_s)
    return now_s


@given(st.integers(1, 8), st.floats(0.05, 1.0))
def test_weights_sum_to_one_and_fade_by_the_decay(count: int, decay: float) -> None:
    weights = fuse(tuple(map(segment, range(count))), decay).weights
    assert math.isclose(sum(weights), 1.0)
    assert all(math.isclose(older, newer * decay) for older, newer in itertools.pairwise(weights))


@given(st.integers(1, 6), st.integers(0, 12))
def test_the_last_segments_are_kept_in_the_order_they_were_said(size: int, count: int) -> None:
    window = StateWindow(size=size)
    for number in range(count):
        window.update(segment(number), number * 0.5)
        window.close_segment(number * 0.5)
    assert list(window.closed) == [segment(number) for number in range(count)][-size:]


@given(st.floats(0.5, 10), st.floats(0, 100))
def test_it_expires_exactly_at_the_limit_and_not_before(expiry_s: float, start_s: float) -> None:
    window = StateWindow(expiry_s=expiry_s)
    window.update(segment(1), start_s)
    window.close_segment(start_s)
    limit_s = start_s + expiry_s
    if limit_s - start_s < expiry_s:  # the sum was rounded down
        limit_s = math.nextafter(limit_s, math.inf)
    assert not window.expire(start_s + expiry_s * 0.999)
    assert window.closed
    assert window.expire(limit_s)
    assert not window.closed


def test_either_side_being_heard_puts_the_expiry_off() -> None:
    window = StateWindow(expiry_s=3.0)
    window.update(segment(1), 0.0)
    window.close_segment(0.0)
    window.touch(2.9)
    assert window.fuse(5.8).segments == (segment(1),)
    assert window.fuse(5.9).segments == ()


def test_what_expires_is_zeroed_for_every_holder() -> None:
    window, held = StateWindow(), segment(1)
    window.update(held, 0.0)
    snapshot = window.snapshot()
    window.expire(3.0)
    assert not held.values.any()
    assert snapshot.open is held


@given(steps, steps, steps)
def test_restored_equals_never_having_gone_astray(
    before: list[Step], astray: list[Step], after: list[Step]
) -> None:
    strayed, straight = StateWindow(), StateWindow()
    now_s = play(strayed, before)
    play(straight, before)
    snapshot = strayed.snapshot()
    later_s = play(strayed, astray, now_s)
    strayed.restore(snapshot, later_s)
    play(straight, [replace(event, kind=HEARD.get(event.kind, "expire")) for event in astray], now_s)
    play(strayed, after, later_s)
    play(straight, after, later_s)
    assert strayed.snapshot() == straight.snapshot()


def test_what_was_said_after_an_expiry_goes_when_what_was_before_it_is_restored() -> None:
    window = StateWindow()
    window.update(segment(1), 0.0)
    before = window.snapshot()
    window.update(segment(2), 4.0)
    window.restore(before, 4.5)
    assert window.snapshot() == WindowState(active_s=4.0)


@given(steps)
def test_a_window_never_holds_more_than_its_size(events: list[Step]) -> None:
    window = StateWindow(size=2)
    play(window, events)
    assert len(window.closed) <= 2


@given(steps, steps)
def test_states_never_cross_windows(mine: list[Step], theirs: list[Step]) -> None:
    one, other, lonely = StateWindow(), StateWindow(), StateWindow()
    play(one, mine)
    play(other, theirs)
    play(lonely, mine)
    assert one.snapshot() == lonely.snapshot()


def test_a_chunk_updates_the_open_segment_and_a_pause_closes_it() -> None:
    window = StateWindow()
    window.update(segment(1, tokens=3), 0.0)
    window.update(segment(2, tokens=6), 0.2)
    assert window.open == segment(2, tokens=6)
    assert window.closed == ()
    window.close_segment(0.4)
    assert window.open is None
    assert window.closed == (segment(2, tokens=6),)


def test_a_segment_closes_at_its_size_limit() -> None:
    window = StateWindow(segment_tokens=6)
    window.update(segment(1, tokens=6), 0.0)
    assert window.open is None
    assert window.closed == (segment(1, tokens=6),)


def test_a_pause_with_nothing_said_closes_nothing() -> None:
    window = StateWindow()
    window.close_segment(0.0)
    assert window.snapshot() == WindowState()


@given(st.lists(st.floats(-1e4, 1e4), min_size=6, max_size=6))
def test_int8_is_never_further_off_than_a_step(numbers: list[float]) -> None:
    slots = torch.tensor(numbers).view(2, 3)
    state = SegmentState.of(slots, 1)
    assert float((state.slots - slots).abs().max()) <= state.scale + 0.01 * float(slots.abs().max())


@pytest.mark.parametrize("wrong", [{"size": 0}, {"decay": 0.0}, {"decay": 1.1}, {"expiry_s": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(CodecError, match="decay lies in"):
        StateWindow(**wrong)  # type: ignore[arg-type]
