"""Repetition: texts that start over are cut where they do, and others are left alone."""

from __future__ import annotations

import pytest

from pipeline.backends.repetition import without_repetition


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Please keep in touch. Please keep in touch. Please keep", "Please keep in touch."),
        ("Make Make Make Make", "Make"),
        ("Give me a make me a make me a make", "Give me a make"),
        ("May I have a coffee? May I", "May I have a coffee?"),
        ("I see. What now? What now? What now?", "I see. What now?"),
        ("4 1 5 5 0 9 4 1 5 5 0 9 4 1", "4 1 5 5 0 9"),
        ("Go FORWARD, go forward", "Go FORWARD,"),
    ],
)
def test_a_text_is_cut_where_it_only_repeats_itself(text: str, kept: str) -> None:
    assert without_repetition(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "you you have had your own way",
        "We had everything before us. We had nothing before us.",
        "may I have a large coffee with a large spoon",
        "he said that that was it",
    ],
)
def test_a_text_that_goes_on_is_left_alone(text: str) -> None:
    assert without_repetition(text) == text


def test_what_is_known_is_never_cut() -> None:
    assert without_repetition("no no no no", known="no no no") == "no no no"
