"""Replies on their way to the loudspeaker of a simulated room, and the microphone in it."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from audio.format import Samples
from clients.loudspeaker import Loudspeaker
from clients.microphone import ZEROS_S, Gate, Microphone
from clients.realtime import RATE_HZ, WIRE, ServerEvent
from clients.room import BLOCK_MS, Room
from tests.clients.scripted import tone


class Desk:
    """A room, its microphone and loudspeaker, and the server's events, on a clock that is told to go on."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.room = Room(gain_db=0.0, delay_ms=20.0)
        self.microphone = Microphone(gate or Gate(), None)
        self.speaker = Loudspeaker(self.microphone)
        self.microphone.connect(self.room)
        self.speaker.connect(self.room)
        self.now = 100.0
        self.sent = b""
        self.told: list[dict[str, Any]] = []

    def goes_on(self, ms: int) -> Desk:
        for _ in range(ms // BLOCK_MS):
            self.room.step()
            self.now += BLOCK_MS / 1000
            self.sent += b"".join(self.microphone.collect(self.now))
            self.told += self.speaker.poll(self.now)
        return self

    def event(self, kind: str, **body: Any) -> Desk:
        self.speaker.push(ServerEvent(kind, {"type": kind, "item_id": "reply", **body}, self.now))
        return self

    def says(self, text: str, seconds: float, item: str = "reply") -> Desk:
        self.event("response.created").event("response.output_audio_transcript.delta", delta=text)
        pcm = base64.b64encode(WIRE.encode(tone(seconds))).decode()
        return self.event("response.output_audio.delta", delta=pcm, item_id=item)

    def all_said(self) -> Desk:
        return self.event("response.output_audio.done")

    def interrupted(self) -> Desk:
        return self.event("input_audio_buffer.speech_started", item_id="user")

    @property
    def heard(self) -> Samples:
        """What the server got."""
        return WIRE.decode(self.sent)


def test_an_interruption_tells_the_server_how_much_was_really_heard() -> None:
    desk = Desk().says("One two three", 2.0).goes_on(500).interrupted().goes_on(20)
    assert desk.told == [
        {"type": "conversation.item.truncate", "item_id": "reply", "content_index": 0, "audio_end_ms": 510}
    ]
    assert not desk.goes_on(100).speaker.playout.busy
    assert desk.speaker.interruptions == 1


def test_sound_that_was_on_its_way_when_the_reply_was_cut_is_dropped() -> None:
    desk = Desk().says("One two three", 1.0).goes_on(200).interrupted().goes_on(20)
    desk.event("response.output_audio.delta", delta=base64.b64encode(WIRE.encode(tone(0.5))).decode())
    assert not desk.speaker.playout.busy


def test_speech_after_a_reply_was_heard_interrupts_nothing() -> None:
    desk = Desk().says("Yes.", 0.2).all_said().goes_on(400).interrupted().goes_on(50)
    assert desk.told == []
    assert desk.speaker.interruptions == 0


def test_the_next_reply_is_played_after_a_cut() -> None:
    desk = Desk().says("One two three", 1.0).goes_on(200).interrupted().says("Four.", 0.2, item="next")
    assert desk.goes_on(200).speaker.playout.played_ms("next") > 100


def test_words_count_as_said_as_their_sound_is_played() -> None:
    desk = Desk().says("One two three four", 1.0).all_said().goes_on(500)
    assert desk.speaker.said_text == "One two three"
    assert desk.goes_on(800).speaker.said_text == "One two three four"


def test_words_count_as_said_when_the_server_says_that_they_sound() -> None:
    desk = Desk().says("One, two three", 1.0)
    for word, start_ms in (("One,", 0), ("two", 450), ("three", 800)):
        desk.event("echoic.word", text=word, start_ms=start_ms, end_ms=start_ms + 200)
    assert desk.goes_on(300).speaker.said_text == "One,"
    assert desk.goes_on(300).speaker.said_text == "One, two"


def test_what_was_said_of_a_reply_that_was_cut_stays_so() -> None:
    desk = Desk().says("One two three four", 1.0).all_said().goes_on(300).interrupted().goes_on(500)
    assert desk.speaker.said_text == "One two"


def test_a_turn_is_timed_from_its_last_sound_to_the_first_audible_sample() -> None:
    desk = Desk().goes_on(1000)
    desk.says("Paris.", 0.5)
    record = {"status": "completed", "speech_end_ms": 600.0, "marks_ms": {"pause_seen": 100.0}}
    desk.event("echoic.turn", record=record).goes_on(100)
    (turn,) = desk.speaker.turns
    assert turn.total_ms == pytest.approx(400, abs=2 * BLOCK_MS + 20)
    assert sum(turn.parts_ms.values()) == turn.total_ms
    assert turn.parts_ms["pause_seen"] == 100


def test_holds_of_the_server_are_no_gaps() -> None:
    desk = Desk().says("One", 0.1).goes_on(300)
    desk.event("response.output_audio.delta", delta=base64.b64encode(WIRE.encode(tone(0.1))).decode())
    assert desk.speaker.gaps == 1
    desk.event("echoic.turn", record={"status": "completed", "pauses": 1, "speech_end_ms": 0, "marks_ms": {}})
    assert desk.speaker.gaps == 0


def test_another_sound_card_goes_on_in_the_middle_of_a_reply() -> None:
    desk = Desk().says("One two three", 1.0).goes_on(400)
    desk.room = Room(0.0, 20.0)
    desk.microphone.connect(desk.room)
    desk.speaker.connect(desk.room)
    assert desk.goes_on(200).speaker.playout.played_ms("reply") == pytest.approx(600, abs=15)


def test_the_microphone_hears_the_room_and_sends_it_in_blocks_of_20_ms() -> None:
    desk = Desk()
    desk.room.speak(tone(0.5), RATE_HZ)
    desk.goes_on(1000)
    assert len(desk.heard) % 480 == 0
    assert np.abs(desk.heard[: RATE_HZ // 4]).max() > 0.2
    assert desk.microphone.spoken_at(0.0) == pytest.approx(100.0, abs=0.05)


@pytest.mark.parametrize(
    ("gate", "while_speaking", "afterwards"),
    [(Gate(), True, True), (Gate(half_duplex=True), False, True), (Gate(muted=True), False, False)],
)
def test_what_the_server_hears_while_it_speaks_and_afterwards(
    gate: Gate, while_speaking: bool, afterwards: bool
) -> None:
    desk = Desk(gate).says("One two three", 0.5).all_said().goes_on(600)
    assert bool(desk.heard.any()) is while_speaking
    desk.goes_on(1000)
    desk.sent = b""
    desk.room.speak(tone(0.5), RATE_HZ)
    assert bool(desk.goes_on(500).heard.any()) is afterwards


def test_digital_silence_is_noticed() -> None:
    desk = Desk()
    desk.room.step = lambda: desk.room.microphone.write(np.zeros(480, np.float32))  # type: ignore[method-assign]
    assert desk.goes_on(round(ZEROS_S * 1000)).microphone.zeros_s == pytest.approx(ZEROS_S)
    desk.room.microphone.write(np.ones(480, np.float32))
    assert desk.goes_on(10).microphone.zeros_s < ZEROS_S
