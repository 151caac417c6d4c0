"""The demo's conversation over a real socket, and how it is shown and recorded."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from clients import demo
from clients.demo import Line, Transcript, converse
from clients.hearing import Hearing
from clients.realtime import ServerEvent, connect
from clients.recordings import Recording
from clients.screen import Screen, turn_table
from tests.clients.outcomes import turn
from tests.clients.scripted import RATE_HZ, Script, scripted_server, tone


def screen(terminal: bool = False) -> tuple[Screen, io.StringIO]:
    file = io.StringIO()
    return Screen(Console(file=file, width=100, force_terminal=terminal)), file


def line(seconds: float = 0.1) -> Line:
    return Line("a test", Recording(Path("a test"), tone(seconds), RATE_HZ, speech_end_s=seconds))


async def test_every_line_is_answered_before_the_next_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "BREATH_S", 0.0)
    shown, file = screen()
    script = Script(transcript="how are you", reply="Fine.")
    async with scripted_server(script) as url, connect(url, timing=True) as client:
        transcript = await converse(client, [line(), line()], shown)
    assert [result.answer.reply for result in transcript.results if result.answer] == ["Fine.", "Fine."]
    first_answer_ends = transcript.assistant[2][0] + len(transcript.assistant[2][1]) / RATE_HZ
    assert transcript.user[1][0] >= first_answer_ends
    assert file.getvalue().count("how are you") == 2


def test_both_sides_lie_on_one_timeline() -> None:
    transcript = Transcript(user=[(1.0, tone(0.5))], assistant=[(2.0, tone(0.1)), (2.1, tone(0.1))])
    user, assistant = transcript.sides()
    assert len(user.samples) == len(assistant.samples)
    assert np.flatnonzero(user.samples)[0] == RATE_HZ
    assert np.flatnonzero(assistant.samples)[0] == 2 * RATE_HZ


def follow(shown: Screen, *events: dict[str, object]) -> None:
    hearing = Hearing()
    with shown.turn(61.5, "a human voice"):
        for event in events:
            hearing.push(ServerEvent(str(event["type"]), event, 0.0))
            shown.follow(hearing)


TURN = (
    {"type": "input_audio_buffer.speech_started"},
    {"type": "conversation.item.input_audio_transcription.delta", "item_id": "u", "delta": "how are"},
    {"type": "conversation.item.input_audio_transcription.completed", "item_id": "u", "transcript": "how are you"},
    {"type": "response.created", "response": {"id": "r"}},
    {"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": "I am fi"},
    {"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": "ne."},
    {"type": "response.done", "response": {"id": "r", "status": "completed"}},
)


def test_a_log_gets_every_line_once_and_only_when_it_is_final() -> None:
    shown, file = screen()
    follow(shown, *TURN)
    assert [text.strip() for text in file.getvalue().splitlines() if text.strip()] == [
        "1:01.5  a human voice",
        "heard     how are you",
        "answered  I am fine.",
    ]


def test_a_terminal_also_sees_words_as_they_come() -> None:
    shown, file = screen(terminal=True)
    follow(shown, *TURN)
    assert "how are …" in file.getvalue()
    assert "I am fi …" in file.getvalue()


def test_a_reply_that_fails_says_how() -> None:
    shown, file = screen()
    details = {"type": "failed", "error": {"message": "speech: gone"}}
    failed = {"type": "response.done", "response": {"id": "r", "status": "failed", "status_details": details}}
    follow(shown, {"type": "response.created", "response": {"id": "r"}}, failed)
    assert "[failed: speech: gone]" in file.getvalue()


def test_the_table_of_turns_shows_every_part_and_turns_without_an_answer() -> None:
    shown, file = screen()
    shown.console.print(turn_table([turn(400, record={"prefilled_tokens": 12}), None]))
    assert {"400", "370", "12", "-"} <= set(file.getvalue().split())
