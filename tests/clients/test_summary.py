"""What a whole replay comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clients.accuracy import CutOff, WordErrors
from clients.measure import ClipResult
from clients.summary import Outcome, Spread, summarise
from tests.clients.outcomes import answered, cut_off, recording, turn, unanswered


def test_latency_is_spread_over_all_and_over_each_category() -> None:
    summary = summarise([answered(400, "x"), answered(600, "y", category="ab"), answered(800, "z", category="b")])
    assert summary.voice_to_voice == Spread(3, 600, 780)
    assert summary.by_category == {"a": Spread(2, 500, 590), "b": Spread(2, 700, 790)}
    assert summary.parts["asr_final"].p50_ms == 570


def test_a_part_that_a_turn_does_not_have_took_no_time_in_it() -> None:
    with_token = replace(turn(400), parts_ms={"first_token": 100, "first_audible": 300})
    outcomes = [answered(400), Outcome(recording("y"), ClipResult("", (with_token,)))]
    assert summarise(outcomes).parts["first_token"] == Spread(2, 50, 95)


def test_word_errors_are_a_micro_average_over_english_clips_of_one_voice() -> None:
    overlap = Outcome(recording("o", category="i"), ClipResult("all wrong", (turn(),)))
    french = Outcome(recording("f", language="fr"), ClipResult("tout faux", (turn(),)))
    summary = summarise([answered(heard="a b c x"), answered(heard="A, b, c, d!", category="b"), overlap, french])
    assert summary.word_errors == WordErrors(1, 8)
    assert summary.word_errors_by_category == {"a": WordErrors(1, 4), "b": WordErrors(0, 4)}


def test_cut_offs_are_told_apart_and_counted_against_clips_with_pauses() -> None:
    pauses = ((1.0, 0.5),)
    members = [cut_off(CutOff.IN_PAUSE, "p", pauses), cut_off(CutOff.IN_SPEECH, "s"), answered()]
    summary = summarise(members)
    assert (summary.cut_off_in_pause, summary.cut_off_in_speech) == (("p",), ("s",))
    assert (summary.cut_off_with_pauses, summary.clips_with_pauses) == (1, 1)


def test_a_reply_to_silence_and_words_heard_in_it_are_counted() -> None:
    quiet = unanswered("quiet", transcript="")
    fooled = Outcome(recording("rain", transcript=""), ClipResult("thank you", (turn(None),)))
    summary = summarise([quiet, fooled])
    assert (summary.silent_clips, summary.answered_silence, summary.invented_words) == (2, ("rain",), 2)
    assert summary.spoken_clips == 0


def test_what_was_never_answered_and_what_went_wrong_is_named() -> None:
    summary = summarise([unanswered("lost", problem="the server closed the session"), answered()])
    assert summary.unanswered == ("lost",)
    assert summary.problems == {"lost": ("the server closed the session",)}


def test_gaps_and_work_add_up_over_turns() -> None:
    record = {"prefilled_tokens": 5, "wasted_tokens": 2, "adopted": True, "transcript": "x"}
    one = Outcome(
        recording(), ClipResult("", (turn(record=record, gaps_ms=(20.0, 5.5)), turn(None, record=record)))
    )
    summary = summarise([one])
    assert (summary.gaps, summary.gap_ms) == (2, pytest.approx(25.5))
    assert summary.work == {"prefilled_tokens": 10, "wasted_tokens": 4, "adopted": 2}


def test_nothing_comes_to_nothing() -> None:
    summary = summarise([])
    assert (summary.clips, summary.voice_to_voice, summary.parts, summary.late_ms) == (0, None, {}, 0.0)
