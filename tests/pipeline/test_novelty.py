"""The assistant's own words, come back through the microphone, and the user's among them."""

from __future__ import annotations

import pytest

from pipeline.interruption import Interruption, classify
from pipeline.novelty import novel_words

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
