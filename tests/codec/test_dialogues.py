from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.dialogues import Turn, carried_value, distractors, read_dialogues, sample, windows
from codec.model import CodecError
from codec.recall import recall

TALK = [Turn("user" if at % 2 == 0 else "assistant", f"words {at}") for at in range(8)]


def test_a_window_holds_the_turns_right_before_the_question() -> None:
    found = windows(TALK, size=3)
    assert found[1] == (tuple(TALK[1:4]), TALK[4].text, TALK[5].text)
    assert all(len(segments) <= 3 for segments, _, _ in found)


def test_the_beginning_of_a_dialogue_gives_shorter_windows() -> None:
    assert windows(TALK, size=3)[0] == (tuple(TALK[0:2]), TALK[2].text, TALK[3].text)


def test_two_turns_of_one_side_in_a_row_are_no_window() -> None:
    assert windows([TALK[0], TALK[2], *TALK[2:4]], size=3) == []


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("It leaves at 7:40 pm from there.", "7:40 pm"),
        ("That is with Hannah Moore then.", "Hannah Moore"),
        ("It costs $1,380 in all.", "$1,380"),
        ("Have a nice day.", ""),
    ],
)
def test_a_value_that_was_said_before_is_found_in_the_reply(reply: str, value: str) -> None:
    said = [Turn("user", "Hannah Moore will take the 7:40 pm train for $1,380.")]
    assert carried_value(said, "What then?", reply) == value


def test_a_value_that_the_question_gives_away_does_not_count() -> None:
    assert carried_value([Turn("user", "I met Hannah.")], "Who is Hannah?", "That is Hannah then.") == ""


def test_distractors_are_of_the_same_kind() -> None:
    pool = ["7:40 pm", "8:15", "Hannah", "Lisbon", "42", "9 am", "Rome"]
    assert set(distractors("6:30", pool, random.Random(0))) == {"7:40 pm", "8:15", "9 am"}
    assert set(distractors("Berlin", pool, random.Random(0))) == {"Hannah", "Lisbon", "Rome"}


@given(st.integers(0, 40), st.floats(0, 1), st.integers(0, 5))
def test_a_sample_is_the_same_for_the_same_seed_and_never_too_large(
    count: int, informed: float, seed: int
) -> None:
    one, other = (sample([TALK] * 10, count, 3, seed, informed) for _ in range(2))
    assert one == other
    assert len(one) == min(count, 20)


def test_recall_asks_for_something_that_was_said() -> None:
    for example in recall(60, "train", 0):
        assert any(example.answer in turn.text for turn in example.segments)
        assert example.answer in example.reply
        assert example.answer not in example.question
        assert example.answer not in example.others
        assert len(set(example.others)) == 4


def test_recall_asks_for_every_age() -> None:
    ages = {
        [example.answer in turn.text for turn in example.segments].index(True)
        for example in recall(60, "train", 0)
    }
    assert ages == {0, 1, 2}


def test_values_to_be_judged_by_are_never_trained_on() -> None:
    trained = {example.answer for example in recall(600, "train", 0)}
    judged = {value for example in recall(200, "test", 0) for value in (example.answer, *example.others)}
    assert not trained & judged


def test_a_line_that_is_no_dialogue_is_named(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps({"turns": [{"role": "user", "text": "Hi"}]}) + "\nnonsense\n")
    with pytest.raises(CodecError, match=r"talk\.jsonl, line 2"):
        read_dialogues(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CodecError, match=r"gone\.jsonl cannot be read"):
        read_dialogues(tmp_path / "gone.jsonl")
