"""Endpointing: what the words promise, and how long the silence has to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import TurnConfig
from pipeline.endpointing import Ending, Evidence, ending_of, wait_ms

CONFIG = TurnConfig()


@pytest.mark.parametrize(
    "text",
    [
        "What is the time?",
        "What's the weather like",
        "Computer, what's the weather like?",
        "Where is he from",
        "Give me a medium roast latte with brown sugar",
        "I'd like a triple shot cappuccino",
        "Please keep in touch with me",
        "Should I get a dog or a cat?",
        "Hello there. Can you help me?",
    ],
)
def test_questions_and_commands_want_an_answer_now(text: str) -> None:
    assert ending_of(text) is Ending.REQUEST


@pytest.mark.parametrize("text", ["Give me a", "and", "I went to the shop and", "Um", "Tell me about", "", "?!"])
def test_a_word_that_needs_another_one_leaves_the_turn_open(text: str) -> None:
    assert ending_of(text) is Ending.OPEN


@pytest.mark.parametrize(
    "text", ["My number is 4155", "one two three", "It is spelled j o h n", "My email is john at", "0, 6, 2, 8"]
)
def test_what_is_dictated_may_go_on(text: str) -> None:
    assert ending_of(text) is Ending.DICTATION


@pytest.mark.parametrize(
    "text", ["We had everything before us", "I am tired.", "My email is john at example dot org"]
)
def test_statements_are_complete_but_may_be_followed(text: str) -> None:
    assert ending_of(text) is Ending.STATEMENT


def test_a_request_at_the_end_of_a_long_speech_is_taken_like_a_statement() -> None:
    speech = "So this is what I made in the last weeks and it works rather well, feel free to take it home and "
    assert ending_of(f"{speech} let me know what you think.") is Ending.STATEMENT
    assert ending_of("Let me know what you think.") is Ending.REQUEST


def test_doubt_in_the_words_and_in_the_sound_is_no_agreement() -> None:
    assert wait_ms(Evidence("Can I have a medium roast?", 0.69, 0.09), CONFIG) == CONFIG.longest_wait_ms
    assert wait_ms(Evidence("Can I have a medium roast?", 0.69, 0.4), CONFIG) < CONFIG.undecided_wait_ms


def test_agreement_makes_the_shortest_wait() -> None:
    assert wait_ms(Evidence("What is the time?", 0.97, 0.4), CONFIG) == CONFIG.shortest_wait_ms


def test_a_model_that_expects_more_makes_it_longer() -> None:
    assert wait_ms(Evidence("I want a dark roast", 0.97, 0.01), CONFIG) == CONFIG.statement_wait_ms


@given(st.text(max_size=60), st.floats(0, 1) | st.none(), st.floats(0, 1) | st.none())
def test_no_evidence_makes_anybody_wait_for_ever(text: str, sound: float | None, words: float | None) -> None:
    wait = wait_ms(Evidence(text, sound, words), CONFIG)
    assert CONFIG.shortest_wait_ms <= wait <= max(CONFIG.longest_wait_ms, CONFIG.dictation_wait_ms)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_surer_sound_never_makes_the_wait_longer(one: float, other: float) -> None:
    less, more = sorted((one, other))
    text = "What is the time?"
    assert wait_ms(Evidence(text, more), CONFIG) <= wait_ms(Evidence(text, less), CONFIG)
