"""Where a growing text is cut into phrases, and where it must not be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phrases import LIMITS, LONGEST_WORD, PhraseCutter

PIECES = 'Dr. e.g. 3.5 22,1 U.S. ... … a@b.io https://a.io/x.y, the of is Yes! why? — ) " No. 5 Word word'.split()
NOISE = st.text(st.characters(exclude_characters="。！？"), max_size=4)
MODEL_TEXT = st.lists(st.sampled_from([*PIECES, " ", " ", "\n"]) | NOISE, max_size=60).map("".join)


def cut(text: str) -> list[str]:
    cutter = PhraseCutter()
    return [phrase.strip() for phrase in cutter.push(text) + cutter.finish()]


@given(text=MODEL_TEXT)
def test_phrases_joined_are_the_text(text: str) -> None:
    cutter = PhraseCutter()
    assert "".join(cutter.push(text) + cutter.finish()).rstrip() == text.rstrip()


@given(text=MODEL_TEXT, cuts=st.lists(st.integers(0, 120), max_size=8))
def test_pieces_give_the_phrases_of_the_whole(text: str, cuts: list[int]) -> None:
    whole, pieces = PhraseCutter(), PhraseCutter()
    edges = [0, *sorted(cuts), len(text)]
    phrases = [phrase for start, end in pairwise(edges) for phrase in pieces.push(text[start:end])]
    assert phrases + pieces.finish() == whole.push(text) + whole.finish()


@given(text=MODEL_TEXT)
def test_no_word_is_ever_split(text: str) -> None:
    assert " ".join(cut(text)).split() == text.split()


@given(words=st.lists(st.text("abcdefgh", min_size=1, max_size=12), max_size=200))
def test_no_phrase_is_longer_than_its_limit(words: list[str]) -> None:
    limits = [*LIMITS, *[LIMITS[-1]] * 200]
    assert all(len(phrase) <= limit for phrase, limit in zip(cut(" ".join(words)), limits, strict=False))


@pytest.mark.parametrize(
    "sentence",
    [
        "Dr. Smith paid 3.5.",
        "Meet Mr. J. Doe.",
        "It cost 22,1 e.g. Here.",
        "At 10:30 p.m. Monday.",
        "See https://a.io/b.c?d=1, now.",
        "Ask bob.b@a.io. please.",
        "The U.S. Army came.",
        "Section No. 5 ends.",
        "Due Jan. 5 or so.",
        "On March 3, 2024 it was.",
        "Wait . . . what?",
        "Smith et al. found it.",
    ],
)
def test_a_full_stop_inside_a_sentence_does_not_end_it(sentence: str) -> None:
    cutter = PhraseCutter()
    cutter.push("Yes. Now then. ")  # the third phrase is long enough for every clause below
    assert [phrase.strip() for phrase in cutter.push(sentence) + cutter.finish()][-1:] == [sentence]


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("In the U.S. The end.", ["In the U.S.", "The end."]),
        ("No. It is not.", ["No.", "It is not."]),
        ("It was 1999. Then", ["It was 1999.", "Then"]),
        ("1999. Then", ["1999.", "Then"]),
        ("Go to abc.io. Then", ["Go to abc.io.", "Then"]),
        ("So am I. You?", ["So am I.", "You?"]),
        ('"Yes!" She left.', ['"Yes!"', "She left."]),
        ("Well... Maybe.", ["Well...", "Maybe."]),
        ("Title\n\nText", ["Title", "Text"]),
        ("1. Apples\n2. Pears", ["1. Apples", "2. Pears"]),
        ("你好。好", ["你好。", "好"]),
    ],
)
def test_a_sentence_or_a_line_ends_a_phrase(text: str, phrases: list[str]) -> None:
    assert cut(text) == phrases


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Sure! I can help you.", "Sure!"),
        ("Well, that depends.", "Well,"),
        ("The capital of France is Paris.", "The capital of France"),
        ("It is sunny in Berlin today.", "It is sunny"),
        ("My favourite colour these days would be blue.", "My favourite colour these days"),
        ("One of the most common ways to cook", "One of the most common ways"),
        ("Water boils at 100 degrees Celsius near the sea", "Water boils at 100 degrees Celsius"),
    ],
)
def test_the_first_phrase_is_short_and_ends_at_a_natural_place(text: str, first: str) -> None:
    assert cut(text)[0] == first


def test_later_phrases_grow_by_no_more_than_about_twice() -> None:
    text = "one two three four five six seven eight nine ten " * 12
    lengths = [len(phrase.split()) for phrase in cut(text)][:-1]
    assert all(later <= 2 * earlier for earlier, later in pairwise(lengths))
    assert lengths[0] <= 6
    assert lengths[-1] == 30


def test_a_full_stop_waits_for_the_next_word() -> None:
    cutter = PhraseCutter()
    assert cutter.push("It is 3.") == []
    assert cutter.push("5. ") == []
    assert cutter.push("Now") == ["It is 3.5. "]


def test_the_first_phrase_leaves_as_soon_as_the_next_word_is_known() -> None:
    cutter = PhraseCutter()
    assert cutter.push("The capital of France is") == []
    assert cutter.push(" Paris") == ["The capital of France "]


def test_lower_limits_are_kept() -> None:
    cutter = PhraseCutter(limits=(10,))
    assert all(len(phrase) <= 10 for phrase in cutter.push("the a the a the a the a the a the a "))


def test_text_without_a_space_does_not_grow_for_ever() -> None:
    assert PhraseCutter().push("x" * LONGEST_WORD) == ["x" * LONGEST_WORD]


def test_white_space_alone_is_no_phrase() -> None:
    assert cut(" \n ") == []
