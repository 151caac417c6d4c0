from __future__ import annotations

import pytest

from clients.followups import Answer, FollowUp, render_followups


def follow_up(soon: Answer, late: Answer) -> FollowUp:
    alone = Answer("When does my train leave?", "I do not know.", None)
    answers = {"soon": soon, "late": late, "alone": alone, "text": Answer(alone.heard, "At 10:15.", None)}
    return FollowUp("My train leaves at ten fifteen.", alone.heard, "10:15", answers)


FORGOT = Answer("When does my train leave?", "I do not know.", None)
KNOWS = Answer("When does my train leave?", "It leaves at 10:15.", 3.4)


@pytest.mark.parametrize("text", ["It leaves at 10:15.", "At 10 15, I think."])
def test_a_value_is_told_however_it_is_written(text: str) -> None:
    assert follow_up(Answer("", text, 3.4), FORGOT).told("soon")


def test_another_number_is_not_the_value() -> None:
    assert not follow_up(Answer("", "It leaves at 110:15.", 3.4), FORGOT).told("soon")


@pytest.mark.parametrize(
    ("late", "gone"),
    [
        (FORGOT, True),
        (Answer("When does my train leave?", "It leaves at 10:15.", None), False),
        (Answer("When does my train leave?", "I do not know.", 3.4), False),
        (Answer("When does my train live?", "Trains do not live.", None), True),
    ],
)
def test_what_is_gone_leaves_the_answer_of_someone_who_was_told_nothing(late: Answer, gone: bool) -> None:
    assert follow_up(KNOWS, late).gone is gone


def test_a_dialogue_that_broke_counts_as_neither() -> None:
    broken = FollowUp("a", "b", "c", {}, "no reply to 'a'")
    assert not broken.gone
    assert render_followups([broken, follow_up(KNOWS, FORGOT)]).row_count == 4
