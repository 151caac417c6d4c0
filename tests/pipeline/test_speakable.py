"""What reaches the voice, and what never does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.speakable import Speakable

# Text that is dense in everything the filter treats specially.
MARKS = "* ** _ ` ``` ~ # - + 1. > | [ ]( ] ) ( ![ [^ < <a > <think> </think> <b> \\".split()
WORDS = [
    "https://a.io/x(1)",
    "www.b.org",
    "h",
    "w",
    "\n",
    " ",
    "a",
    "Word",
    "5",
    ".",
    "!",
    "👋🏽",
    "👨‍👩‍👧",
    "→",
    "°C",
    "\u200b",
]
MODEL_TEXT = st.lists(st.sampled_from(MARKS + WORDS) | st.text(max_size=3), max_size=25).map("".join)


def said(text: str) -> str:
    speakable = Speakable()
    return speakable.push(text) + speakable.finish()


@given(text=MODEL_TEXT, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_pieces_equal_the_whole(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(text)]
    speakable = Speakable()
    pieces = [speakable.push(text[start:end]) for start, end in pairwise(edges)]
    assert "".join(pieces) + speakable.finish() == said(text)


@given(text=MODEL_TEXT)
def test_no_mark_and_no_emoji_ever_gets_through(text: str) -> None:
    assert not set(said(text)) & set("*`_#~[]|\\👋👨→\u200b\u200d")


@given(text=st.text(st.sampled_from("abcdefgh ABC 123 .,!?'"), max_size=60))
def test_plain_prose_keeps_every_visible_character(text: str) -> None:
    assert said(text).split() == text.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Bold**, *slanted*, __strong__ and ~~gone~~.", "Bold, slanted, strong and gone."),
        ("# Title\n\n## Part", "Title\nPart"),
        ("- one\n* two\n+ three\n1. four", "one\ntwo\nthree\n1. four"),
        ("Call `print` now", "Call print now"),
        ("Run:\n```python\nprint(1)\n```\nDone.", "Run:\nDone."),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b \n1 2 "),
        ("> quoted\n> text", "quoted\ntext"),
        ("Above\n\n---\n\nBelow", "Above\nBelow"),
        ("A note[^1] here", "A note here"),
    ],
)
def test_markdown_is_not_read_out(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [the docs](https://x.org/a_(b)?c=1), please.", "See the docs, please."),
        ("See [the docs][ref], please.", "See the docs, please."),
        ("![a cat](cat.png) sleeps", "a cat sleeps"),
        ("Go to https://www.python.org/downloads/?v=3. Then", "Go to python.org. Then"),
        ("Go to www.python.org, then", "Go to python.org, then"),
        ("(at <https://example.com>)", "(at example.com)"),
        ("Write to <ann@example.com>.", "Write to ann@example.com."),
    ],
)
def test_of_a_link_its_text_is_read_and_of_a_url_its_site(text: str, expected: str) -> None:
    assert said(text) == expected


def test_thoughts_split_over_tokens_are_not_spoken() -> None:
    speakable = Speakable()
    tokens = ["<th", "ink", ">They ask <b>", " about</", "thi", "nk", ">", "\n\n", "Paris", "."]
    assert "".join(map(speakable.push, tokens)) + speakable.finish() == "Paris."


def test_a_thought_that_never_ends_is_not_spoken() -> None:
    assert said("Yes. <think>but then again") == "Yes. "


@pytest.mark.parametrize("text", ["1 + 1 = 2", "-5 °C", "x < 3 and y > 4", "well-known", "C++", "50%", "a@b.org"])
def test_signs_that_mean_something_stay(text: str) -> None:
    assert said(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2 * 3 or 2*3", "2 times 3 or 2 times 3"), ("C# and #1", "C sharp and number 1"), ("~5 km", "about 5 km")],
)
def test_marks_that_stand_for_words_are_read_as_words(text: str, expected: str) -> None:
    assert said(text) == expected


def test_emoji_leave_one_space_behind() -> None:
    assert said("Hi 👋🏽 there 👨‍👩‍👧 1️⃣!") == "Hi there 1!"


def test_a_finished_word_is_not_held_back() -> None:
    assert Speakable().push("Hello there") == "Hello there"
