"""The assistant's own words, come back through the microphone, and the user's among them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.interruption import Interruption, classify
from pipeline.novelty import echo_of, novel_words, without_echo

REPLY = (
    "The sea was calm that morning, and the old sailor looked out at the grey horizon. He had no plans to stop."
)


@pytest.mark.parametrize(
    ("heard", "novel"),
    [
        ("the old sailor looked out", []),
        ("The sea was calm that mourning and the old sailer", []),
        ("sailor looked at the great horizon", ["great"]),
        ("the old sailor what about the weather", ["what", "about", "weather"]),
        ("what is the capital of Spain", ["what", "is", "capital", "of", "spain"]),
        ("", []),
    ],
)
def test_words_that_the_reply_explains_are_not_new(heard: str, novel: list[str]) -> None:
    assert [word for word in novel_words(heard, REPLY) if word != "the"] == novel


def test_everything_is_new_where_nothing_was_said() -> None:
    assert novel_words("good morning", "") == ["good", "morning"]


@pytest.mark.parametrize(
    ("heard", "meaning"),
    [
        ("the old sailor looked out at", Interruption.NOTHING),
        ("and the old tailor looked up at", Interruption.NOTHING),  # misheard
        ("had no plans to stop", Interruption.NOTHING),  # the stop word is its own
        ("the old sailor stop", Interruption.STOP),
        ("the grey horizon tell me about Spain", Interruption.WORDS),
        ("what is the capital of Spain", Interruption.WORDS),
        ("what was the old sailor's name", Interruption.WORDS),
        ("uh-huh", Interruption.BACKCHANNEL),
        ("stop", Interruption.NOTHING),  # it has just said so itself
        ("wait", Interruption.STOP),
    ],
)
def test_an_echo_is_nothing_and_words_over_it_are_heard(heard: str, meaning: Interruption) -> None:
    assert classify(heard, REPLY) is meaning


@pytest.mark.parametrize(
    ("heard", "meant"),
    [
        ("It's about three o'clock stop please.", "stop please."),
        ("about tree o'clock. And tomorrow?", "And tomorrow?"),  # misheard
        ("Three what?", "Three what?"),  # one word is no echo
        ("What is about three o'clock?", "What is about three o'clock?"),
        ("about three o'clock", "about three o'clock"),  # nothing else would be left
        ("", ""),
    ],
)
def test_words_of_the_reply_in_front_of_the_users_own_are_left_out(heard: str, meant: str) -> None:
    assert without_echo(heard, "it's about three o'clock") == meant


def test_only_what_was_in_the_air_with_the_user_is_an_echo() -> None:
    said = "The sea was calm that morning, and the old sailor looked"
    assert echo_of("The sea was calm that morning, and the", said) == "morning and the old sailor looked"
    assert without_echo("The sea was calm, you said?", echo_of(said, said)) == "The sea was calm, you said?"


texts = st.lists(
    st.sampled_from("sea calm, old sailor morning. horizon why Paris stop what now?".split()), max_size=9
).map(" ".join)


@given(texts, texts)
def test_leaving_an_echo_out_takes_away_nothing_but_a_beginning_that_it_explains(heard: str, echo: str) -> None:
    meant = without_echo(heard, echo)
    assert heard.endswith(meant)
    assert bool(meant) == bool(heard)
    assert not novel_words(heard.removesuffix(meant), echo)


@given(texts)
def test_while_nothing_is_playing_every_word_is_the_users_own(heard: str) -> None:
    assert without_echo(heard, "") == heard


@given(st.integers(0, 9), st.integers(2, 10), st.sampled_from(["What about Paris?", "Stop, please.", "No way!"]))
def test_an_echo_of_any_length_is_told_from_the_words_after_it(start: int, count: int, own: str) -> None:
    echo = " ".join(
        "the old sailor looked out at that grey horizon for his brother".split()[start : start + count]
    )
    assert without_echo(f"{echo} {own}", "the old sailor looked out at that grey horizon for his brother") == own
