"""Replies with and without drafts, held against each other."""

from __future__ import annotations

from dataclasses import replace

from clients.agreement import Agreement, compare_replies
from clients.measure import ClipResult
from clients.summary import Outcome
from tests.clients.outcomes import recording, turn


def outcome(*exchanges: tuple[str, str], status: str = "completed") -> Outcome:
    turns = tuple(replace(turn(), heard=heard, reply=reply, status=status) for heard, reply in exchanges)
    return Outcome(recording("clip"), ClipResult("", turns))


def test_the_same_words_answered_the_same_are_identical() -> None:
    assert compare_replies([outcome(("hi", "Hello."))], [outcome(("hi", "Hello."))]).identical == ("clip",)


def test_the_same_words_answered_otherwise_are_different() -> None:
    assert compare_replies([outcome(("hi", "Hello."))], [outcome(("hi", "Hi."))]).different == ("clip",)


def test_answers_to_other_words_are_not_compared() -> None:
    agreement = compare_replies([outcome(("hi", "Hello."))], [outcome(("high", "How high?"))])
    assert agreement.heard_differently == ("clip",)


def test_an_interrupted_reply_is_left_out() -> None:
    interrupted = outcome(("hi", "Hel"), status="cancelled")
    assert compare_replies([interrupted], [outcome(("hi", "Hello."))]).heard_differently == ("clip",)


def test_recordings_that_were_never_answered_prove_nothing() -> None:
    assert compare_replies([outcome()], [outcome()]) == Agreement((), (), ())
