"""Agreement: what two hypotheses in a row begin with is stable, and stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.agreement import PROMPT_CHARS, Agreement, words_to_commit


@pytest.fixture
def words() -> Agreement:
    return Agreement()


def test_one_hypothesis_makes_nothing_stable(words: Agreement) -> None:
    words.push("May I have a")
    assert (words.stable, words.unstable) == ("", "May I have a")


def test_words_that_two_hypotheses_begin_with_become_stable(words: Agreement) -> None:
    words.push("May I have a light")
    words.push("May I have the light on")
    assert (words.stable, words.unstable) == ("May I have", " the light on")


def test_the_last_word_of_a_hypothesis_is_never_stable(words: Agreement) -> None:
    words.push("I want a house.")
    words.push("I want a house.")
    words.push("I want a house coffee")
    assert words.stable == "I want a"


def test_unsure_hypotheses_are_shown_but_make_nothing_stable(words: Agreement) -> None:
    words.push("Need us now", sure=False)
    words.push("Need us now", sure=True)
    words.push("Need us now", sure=False)
    assert (words.stable, words.text) == ("", "Need us now")


def test_a_hypothesis_against_the_stable_text_is_left_aside(words: Agreement) -> None:
    words.push("go forward ten metres")
    words.push("go forward ten metres")
    words.push("no forward ten metres")
    assert words.text == "go forward ten metres"


def test_punctuation_may_follow_a_stable_word_without_a_space(words: Agreement) -> None:
    words.push("hey guys welcome")
    words.push("hey guys welcome")
    words.push("hey guys, welcome")
    assert (words.stable, words.unstable) == ("hey guys", ", welcome")


def test_committed_words_leave_the_window_and_stay_in_the_text(words: Agreement) -> None:
    words.push("one two three four")
    words.push("one two three four")
    words.commit(2)
    assert (words.prompt, words.prefix, words.window_text) == ("one two", "three", "three four")
    words.push("three four five")
    assert words.text == "one two three four five"


def test_words_that_were_not_stable_are_so_once_committed(words: Agreement) -> None:
    words.push("one two three")
    words.commit(2)
    assert (words.stable, words.unstable) == ("one two", " three")


def test_the_prompt_is_the_end_of_what_was_committed(words: Agreement) -> None:
    words.push("word " * 200 + "end")
    words.commit(201)
    assert words.prompt == ("word " * 200 + "end")[-PROMPT_CHARS:]


def test_words_are_committed_up_to_the_last_clause_that_is_old_enough() -> None:
    assert words_to_commit("one two, three four", (10, 20, 30, 40), keep_from=30) == 2
    assert words_to_commit("one two three four", (10, 20, 30, 40), keep_from=30) == 3
    assert words_to_commit("one two three four", (10, 20, 30, 40), keep_from=5) == 0


HYPOTHESES = st.lists(st.lists(st.sampled_from(["a", "b", "b.", "c,"]), max_size=5).map(" ".join))


@given(HYPOTHESES, st.integers(0, 3))
def test_stable_text_only_ever_grows(hypotheses: list[str], committed: int) -> None:
    words, before = Agreement(), ""
    for hypothesis in hypotheses:
        words.push(hypothesis)
        assert words.stable.startswith(before)
        assert words.stable + words.unstable == words.text
        before = words.stable
    words.commit(committed)
    assert words.stable.startswith(before)
