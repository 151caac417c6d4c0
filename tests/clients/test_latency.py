"""Parts of a latency add up; percentiles are what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.latency import AUDIBLE, PARTS, RECEIVED, SHORT, break_down, percentile

MOMENTS = st.floats(min_value=-5_000, max_value=20_000)


@given(marks=st.dictionaries(st.sampled_from(list(PARTS)), MOMENTS), total=st.floats(0, 20_000))
def test_parts_add_up_to_the_total_whatever_the_marks_are(marks: dict[str, float], total: float) -> None:
    parts = break_down(marks, total)
    assert sum(parts.values()) == round(total)
    assert all(length >= 0 for length in parts.values())


def test_parts_come_in_the_order_of_time_and_not_of_work() -> None:
    parts = break_down({"asr_final": 150, "first_token": 190, "turn_end_decided": 170, RECEIVED: 200}, 210)
    assert list(parts) == ["asr_final", "turn_end_decided", "first_token", RECEIVED, AUDIBLE]
    assert list(parts.values()) == [150, 20, 20, 10, 10]


def test_work_done_while_the_user_still_spoke_costs_nothing() -> None:
    assert break_down({"asr_final": -80.0, RECEIVED: 300}, 310) == {"asr_final": 0, RECEIVED: 300, AUDIBLE: 10}


def test_work_that_ended_after_the_reply_was_heard_was_not_waited_for() -> None:
    assert break_down({RECEIVED: 300, "asr_final": 900}, 310) == {RECEIVED: 300, "asr_final": 10, AUDIBLE: 0}


def test_every_part_has_a_label_and_a_short_one() -> None:
    assert list(PARTS) == list(SHORT)


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 2.5), (95, 3.85), (100, 4.0)])
def test_percentiles_are_interpolated_between_neighbours(percent: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == pytest.approx(expected)


def test_nothing_has_no_percentile() -> None:
    assert percentile([], 50) is None
