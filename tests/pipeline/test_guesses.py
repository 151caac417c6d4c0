"""Guesses: what was said often enough after some tokens is guessed after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.backends.guesses import GUESSES, Guesses
from pipeline.ports import InputError

HELLO = [1, 2, 10, 11, 12, 13]


def test_what_was_said_again_and_again_is_guessed() -> None:
    assert Guesses.counted([HELLO, HELLO], 9).after([0, 1, 2], 3) == [10, 11, 12]


def test_no_more_are_made_than_are_worth_it() -> None:
    assert Guesses.counted([HELLO, HELLO], 2).after([1, 2], 9) == [10, 11]


def test_what_was_said_once_is_no_habit() -> None:
    assert Guesses.counted([HELLO], 9).after([1, 2], 3) == []


def test_the_longest_context_that_is_known_decides() -> None:
    replies = [[5, 1, 2, 20], [5, 1, 2, 20], [6, 1, 2, 30], [6, 1, 2, 30], [6, 1, 2, 30]]
    guesses = Guesses.counted(replies, 9)
    assert (guesses.after([5, 1, 2], 1), guesses.after([9, 1, 2], 1)) == ([20], [30])


def test_what_goes_on_in_many_ways_is_not_guessed() -> None:
    assert Guesses.counted([[1, 2, number // 2] for number in range(10)], 9).after([1, 2], 1) == []


def test_a_file_keeps_them(tmp_path: Path) -> None:
    Guesses.counted([HELLO, HELLO], 9).write(tmp_path / "some.npz")
    kept = Guesses.of(tmp_path / "some.npz", 9)
    assert kept.after([1, 2], 9) == [10, 11, 12, 13]


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "some.npz").write_bytes(b"words")
    with pytest.raises(InputError, match=r"some\.npz"):
        Guesses.of(tmp_path / "some.npz", 9)


def test_a_model_without_a_file_is_not_guessed_at() -> None:
    assert not len(Guesses.for_model("no-such-model", 3))
    assert all(len(Guesses.of(path, 3)) for path in GUESSES.glob("*.npz"))
