"""A client's view of a session: what was heard, what was answered, and how it sounds when played."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from clients.hearing import Hearing, Piece, first_audible, mix_down, play_back
from clients.realtime import ServerEvent
from pipeline.events import ReplyAudio
from tests.clients.scripted import WIRE, tone
from tests.pipeline.conversation import Conversation, Costs, Say

RATE_HZ = 24_000


def hear(*events: dict[str, Any]) -> Hearing:
    hearing = Hearing()
    for at, body in enumerate(events):
        hearing.push(ServerEvent(body["type"], body, float(at)))
    return hearing


def transcribed(item: str, text: str, kind: str = "completed") -> dict[str, Any]:
    key = "transcript" if kind == "completed" else "delta"
    return {"type": f"conversation.item.input_audio_transcription.{kind}", "item_id": item, key: text}


def created(reply: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": reply, "status": "in_progress"}}


def done(reply: str, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": reply, "status": status, **more}}


def spoken(reply: str, text: str) -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": reply, "delta": text}


def test_deltas_grow_a_transcript_that_the_final_text_replaces() -> None:
    growing = [transcribed("u1", "What is", "delta"), transcribed("u1", " the", "delta")]
    assert hear(*growing).transcript == "What is the"
    assert hear(*growing, transcribed("u1", "What is this?")).transcript == "What is this?"


def test_the_current_turn_is_known_by_its_words_and_those_that_may_change() -> None:
    started = {"type": "input_audio_buffer.speech_started", "item_id": "u2"}
    unstable = {"type": "echoic.tail", "text": "capi"}
    hearing = hear(transcribed("u1", "One."), started, transcribed("u2", "What is the ", "delta"), unstable)
    assert (hearing.current, hearing.unstable, hearing.speech_starts) == ("What is the", "capi", 1)
    hearing.push(ServerEvent(started["type"], {**started, "item_id": "u3"}, 9.0))
    assert (hearing.current, hearing.unstable) == ("", "")


def test_the_transcript_of_a_session_joins_its_turns() -> None:
    assert (
        hear(transcribed("u1", " One. "), transcribed("u2", ""), transcribed("u3", "Two.")).transcript
        == "One. Two."
    )


def test_a_turn_that_is_taken_back_takes_its_words_with_it() -> None:
    taken_back = {"type": "conversation.item.deleted", "item_id": "u1"}
    assert (
        hear(transcribed("u1", "I want"), taken_back, transcribed("u2", "I want tea.")).transcript == "I want tea."
    )


def test_a_reply_is_open_until_the_server_says_it_is_done() -> None:
    assert hear(created("r1"), spoken("r1", "Pa")).open_reply is not None
    hearing = hear(created("r1"), spoken("r1", "Pa"), spoken("r1", "ris."), done("r1"))
    assert hearing.open_reply is None
    assert hearing.replies[0].text == "Paris."


def test_sound_is_kept_with_the_time_of_its_arrival() -> None:
    delta = base64.b64encode(WIRE.encode(tone(0.01))).decode()
    hearing = hear(created("r1"), {"type": "response.output_audio.delta", "response_id": "r1", "delta": delta})
    (piece,) = hearing.replies[0].pieces
    assert (len(piece.samples), piece.received_at) == (240, 1.0)


def test_a_failed_reply_keeps_the_reason() -> None:
    details = {"type": "failed", "error": {"message": "speech: the voice is gone"}}
    (reply,) = hear(created("r1"), done("r1", "failed", status_details=details)).replies
    assert (reply.status, reply.error) == ("failed", "speech: the voice is gone")


def record(turn: int, status: str = "completed") -> dict[str, Any]:
    return {"type": "echoic.turn", "record": {"turn": turn, "status": status}}


def test_a_latency_record_belongs_to_the_reply_before_it() -> None:
    hearing = hear(created("r1"), done("r1"), record(1), created("r2"), done("r2"), record(2))
    assert [reply.record and reply.record["turn"] for reply in hearing.replies] == [1, 2]


def test_a_reply_that_was_taken_back_leaves_the_record_to_the_one_that_was_given() -> None:
    hearing = hear(created("r1"), done("r1", "cancelled"), created("r2"), done("r2"), record(1))
    assert [reply.record is None for reply in hearing.replies] == [True, False]


def test_a_turn_without_a_reply_keeps_its_record_to_itself() -> None:
    hearing = hear(created("r1"), done("r1", "cancelled"), record(1, "no_reply"))
    assert hearing.replies[0].record is None
    assert [each["turn"] for each in hearing.unanswered] == [1]


def test_errors_are_kept_and_unknown_events_are_not_minded() -> None:
    hearing = hear({"type": "error", "error": {"message": "no"}}, {"type": "rate_limits.updated"})
    assert hearing.errors == ["no"]


def piece(at: float, samples: np.ndarray) -> Piece:
    return Piece(samples, at)


def test_pieces_that_come_early_play_without_a_gap() -> None:
    playback = play_back([piece(1.0, tone(0.1)), piece(1.0, tone(0.1)), piece(1.15, tone(0.1))])
    assert playback is not None
    assert playback.gaps_ms == ()
    assert playback.starts == pytest.approx((1.0, 1.1, 1.2))
    assert playback.ends_at == pytest.approx(1.3)


def test_a_piece_that_comes_late_leaves_a_gap_as_long_as_it_is_late() -> None:
    playback = play_back([piece(1.0, tone(0.1)), piece(1.25, tone(0.1))])
    assert playback is not None
    assert playback.gaps_ms == pytest.approx((150.0,))
    assert playback.ends_at == pytest.approx(1.35)


def test_a_reply_is_audible_at_its_first_loud_sample_and_not_when_it_arrives() -> None:
    playback = play_back([piece(1.0, np.zeros(2400, np.float32)), piece(1.0, tone(0.1))])
    assert playback is not None
    assert (playback.received_at, playback.audible_at) == (1.0, pytest.approx(1.1))


def test_a_breath_is_not_audible() -> None:
    assert first_audible(tone(0.1, level=0.009)) is None
    assert first_audible(np.concatenate([tone(0.1, level=0.009), tone(0.1)])) == 2400


def test_nothing_received_is_nothing_played() -> None:
    assert play_back([]) is None


def test_sounds_are_mixed_at_their_position() -> None:
    track = mix_down([(0.01, np.ones(240, np.float32)), (0.015, np.ones(480, np.float32))], 600)
    assert [track[239], track[240], track[360], track[480]] == [0, 1, 2, 1]


async def gaps_of(reply: str, **costs: float) -> tuple[float, ...]:
    """The gaps that a player hears in a whole session's reply, whose stages cost so much."""
    log = await Conversation(Say(0.5, 1.5, "What is the time?"), reply=reply, costs=Costs(**costs)).run(20)
    spoken = [(at, event) for at, event in log.entries if isinstance(event, ReplyAudio)]
    playback = play_back([Piece(WIRE.decode(event.pcm), at) for at, event in spoken])
    assert playback is not None
    assert playback.ends_at - spoken[0][0] > 2
    return playback.gaps_ms


@pytest.mark.looptime(start=0)
async def test_phrases_follow_each_other_without_a_gap_when_the_machine_keeps_up() -> None:
    assert await gaps_of("It is ten, and the shop opens at noon. Shall I wake you then? " * 3) == ()


@pytest.mark.looptime(start=0)
async def test_a_machine_that_does_not_keep_up_is_given_away_by_its_gaps() -> None:
    assert await gaps_of("It is ten, and the shop opens at noon. Shall I wake you then? " * 3, phrase=3.0) != ()
