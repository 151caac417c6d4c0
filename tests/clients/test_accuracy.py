"""Word errors are counted on words alone, and a reply that breaks in is seen as such."""

from __future__ import annotations

import pytest

from clients.accuracy import CutOff, WordErrors, classify_cut_off, normalise, total_errors, word_errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What's the weather like?", "whats the weather like"),
        ("What’s the “weather” like…", "whats the weather like"),
        ("Close your new T-shirt.", "close your new t shirt"),
        ("a cold—hearted  man", "a cold hearted man"),
        ("Go forward 10 meters!", "go forward ten meters"),
        ("a 16-ounce coffee", "a sixteen ounce coffee"),
        ("42 and 99 and 20", "forty two and ninety nine and twenty"),
        ("415-509-0132", "four one five five zero nine zero one three two"),
        ("Mr. and Mrs. Dashwood", "mister and missus dashwood"),
        ("50% of A&B", "fifty percent of a and b"),
        ("Présentement, ¿está bloqueada?", "présentement está bloqueada"),
        ("...", ""),
    ],
)
def test_normalising_leaves_words_alone(text: str, words: str) -> None:
    assert normalise(text) == words


def test_words_that_differ_in_form_only_are_no_errors() -> None:
    assert word_errors("mister smith has ten t shirts", "Mr. Smith has 10 T-shirts!") == WordErrors(0, 6)


def test_substitutions_insertions_and_deletions_all_count() -> None:
    assert word_errors("a b c d", "a x c d e") == WordErrors(2, 4)
    assert word_errors("a b c d", "") == WordErrors(4, 4)


def test_words_heard_where_nobody_spoke_are_errors_without_a_rate() -> None:
    counts = word_errors("", "Thank you for watching.")
    assert (counts.errors, counts.words, counts.rate) == (4, 0, None)


def test_the_micro_average_weighs_long_recordings_more() -> None:
    assert total_errors([WordErrors(1, 1), WordErrors(0, 9)]).rate == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("heard_s", "kind"),
    [
        (4.1, CutOff.NONE),
        (4.0, CutOff.NONE),
        (3.9, CutOff.IN_SPEECH),
        (2.0, CutOff.IN_PAUSE),
        (2.9, CutOff.IN_PAUSE),  # begun in the pause, heard just after it
        (3.2, CutOff.IN_SPEECH),
        (1.9, CutOff.IN_SPEECH),
    ],
)
def test_a_reply_before_the_end_of_speech_is_a_cut_off(heard_s: float, kind: CutOff) -> None:
    assert classify_cut_off(heard_s, speech_end_s=4.0, pauses=[(2.0, 0.6)]) is kind
