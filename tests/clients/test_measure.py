"""From what was heard to figures, on a clock of whole seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.accuracy import CutOff
from clients.hearing import Hearing, Piece, Reply
from clients.measure import TurnResult, measure_turns
from clients.recordings import Recording
from tests.clients.scripted import tone

SESSION_BEGAN, BLOCK_S = 100.0, 0.02


class Uplink:
    """Spoken without delay since ``SESSION_BEGAN``, in blocks of 20 ms."""

    def spoken_at(self, position_s: float) -> float:
        return SESSION_BEGAN + position_s

    def sent_at(self, position_s: float) -> float:
        return SESSION_BEGAN + (position_s // BLOCK_S + 1) * BLOCK_S

    def position_at(self, time: float) -> float:
        return time - SESSION_BEGAN


def reply(received_s: float, lead_in_s: float = 0.0, record: dict[str, Any] | None = None) -> Reply:
    """A reply received so many seconds into the session, audible after its lead-in."""
    sound = np.concatenate([np.zeros(round(lead_in_s * 24_000), np.float32), tone(0.5)])
    pieces = [Piece(sound, SESSION_BEGAN + received_s)]
    return Reply("r", SESSION_BEGAN, "heard", "Yes.", "completed", pieces=pieces, record=record)


def measured(*replies: Reply, begins_s: float = 0.0, **facts: Any) -> tuple[TurnResult, ...]:
    hearing = Hearing()
    hearing.replies.extend(replies)
    facts = {"transcript": "x", "speech_end_s": 3.0, **facts}
    return measure_turns(hearing, Uplink(), Recording(Path("c.wav"), tone(5.0), 24_000, **facts), begins_s)


def test_voice_to_voice_ends_when_the_reply_is_audible_and_not_when_it_arrives() -> None:
    (turn,) = measured(reply(received_s=3.4, lead_in_s=0.1))
    assert turn.voice_to_voice_ms == 500
    assert turn.parts_ms == {"first_audio_received": 400, "first_audible": 100}


def test_the_recordings_place_in_the_session_is_taken_off() -> None:
    (turn,) = measured(reply(received_s=13.4), begins_s=10.0)
    assert (turn.voice_to_voice_ms, turn.first_heard_s) == (400, 3.4)


def test_the_servers_marks_count_from_when_its_last_sample_arrived() -> None:
    marks = {"pause_seen": 100.0, "first_audio_sent": 300.0}
    record = {
        "speech_end_ms": 2_950.0,
        "marks_ms": marks,
    }  # that block was sent at 2.96 s, 40 ms before the true end
    (turn,) = measured(reply(received_s=3.3, record=record))
    assert turn.parts_ms == {
        "pause_seen": 60,
        "first_audio_sent": 200,
        "first_audio_received": 40,
        "first_audible": 0,
    }


def test_without_a_manifest_the_servers_end_of_speech_is_the_end() -> None:
    record = {"speech_end_ms": 2_000.0, "marks_ms": {}}
    (turn,) = measured(reply(received_s=2.3, record=record), speech_end_s=None, transcript=None)
    assert turn.voice_to_voice_ms == 300


def test_a_reply_is_not_timed_where_nobody_knows_the_end_of_speech() -> None:
    (turn,) = measured(reply(received_s=2.3), speech_end_s=None, transcript=None)
    assert (turn.voice_to_voice_ms, turn.first_heard_s) == (None, 2.3)


@pytest.mark.parametrize(
    ("received_s", "kind"), [(1.2, CutOff.IN_PAUSE), (2.5, CutOff.IN_SPEECH), (3.1, CutOff.NONE)]
)
def test_a_reply_heard_before_the_end_of_speech_is_a_cut_off_and_has_no_latency(
    received_s: float, kind: CutOff
) -> None:
    (turn,) = measured(reply(received_s), pauses=((1.0, 0.5),))
    assert turn.cut_off is kind
    assert (turn.voice_to_voice_ms is None) == (kind is not CutOff.NONE)


def test_only_the_first_reply_after_the_speech_answers_it() -> None:
    turns = measured(reply(1.0), reply(3.3), reply(4.5))
    assert [turn.voice_to_voice_ms for turn in turns] == [None, 300, None]


def test_a_reply_to_silence_is_heard_and_not_timed() -> None:
    (turn,) = measured(reply(2.0, record={"speech_end_ms": 1_000.0}), transcript="", speech_end_s=None)
    assert (turn.first_heard_s, turn.voice_to_voice_ms, turn.cut_off) == (2.0, None, CutOff.NONE)


def test_a_reply_without_sound_keeps_its_text() -> None:
    (turn,) = measured(Reply("r", SESSION_BEGAN, "heard", "Yes.", "completed"))
    assert (turn.heard, turn.reply, turn.first_heard_s) == ("heard", "Yes.", None)


def test_a_turn_without_a_reply_is_told_with_the_work_it_cost() -> None:
    hearing = Hearing()
    hearing.unanswered.append({"status": "no_reply", "transcript": "hm", "wasted_tokens": 3})
    (turn,) = measure_turns(hearing, Uplink(), Recording(Path("c.wav"), tone(1.0), 24_000), 0.0)
    assert (turn.heard, turn.reply, turn.status, turn.record["wasted_tokens"]) == ("hm", "", "no_reply", 3)
