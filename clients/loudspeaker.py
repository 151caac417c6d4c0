"""The replies' way to the loudspeaker: what is played of them, what is forgotten, and what was heard when."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from audio.playout import Playout
from audio.soundcard import Ends
from clients.hearing import TIMING_EVENT, WORD_EVENT, first_audible
from clients.latency import RECEIVED, break_down
from clients.microphone import Microphone
from clients.realtime import RATE_HZ, WIRE, ServerEvent

# How fast a voice speaks, in characters a second, until it has been heard.
TYPICAL_PACE = 15.0


@dataclass(slots=True)
class Spoken:
    """The reply that is being said: its text, its sound so far, and when it was first there and first audible."""

    item: str = ""
    text: str = ""
    sound_ms: float = 0.0
    received_at: float | None = None
    audible_from_ms: float | None = None
    audible_at: float | None = None
    words: list[tuple[float, int]] = field(default_factory=list)  # when each begins, in ms, and ends in the text
    complete: bool = False
    forgotten_at_ms: float | None = None  # how much had been played when it was cut

    def add_word(self, word: str, start_ms: float) -> None:
        """The server says when a word of the text sounds."""
        known_to = self.words[-1][1] if self.words else 0
        at = self.text.find(word, known_to)
        if at >= 0:
            self.words.append((start_ms, at + len(word)))

    def said(self, played_ms: float, pace: float) -> str:
        """The text up to the word that is being said.

        Where the server does not say when words sound, that is judged by the share of the sound that was played.
        """
        if self.words:
            return self.text[: max((end for start_ms, end in self.words if start_ms < played_ms), default=0)]
        if self.complete and self.sound_ms:
            characters = round(len(self.text) * min(played_ms / self.sound_ms, 1.0))
        else:
            characters = round(played_ms / 1000 * pace)
        word_end = self.text.find(" ", characters) if characters else 0
        return self.text if word_end < 0 else self.text[:word_end]


@dataclass(frozen=True, slots=True)
class Turn:
    """Where the time of one turn went: parts in ms that add up to ``total_ms``."""

    total_ms: int
    parts_ms: Mapping[str, int]


class Loudspeaker:
    """Plays what the server says and drops it when told; answers with what the server has to know.

    Events are pushed in; ``poll`` is called every few milliseconds. It does no I/O of its own.
    """

    def __init__(self, microphone: Microphone) -> None:
        self.spoken = Spoken()
        self.turns: list[Turn] = []
        self.interruptions = 0
        self.pauses = 0
        self._microphone = microphone
        self._ends: Ends | None = None
        self._pace = TYPICAL_PACE
        self._record: Mapping[str, Any] | None = None  # of the turn whose reply is not heard yet

    def connect(self, ends: Ends) -> None:
        """Speak through these devices from now on; what another one has left unplayed goes on here."""
        if self._ends is not None:
            ends.playout.take_over(self._ends.playout)
        self._ends = ends

    @property
    def playout(self) -> Playout:
        """What waits for the device."""
        assert self._ends is not None
        return self._ends.playout

    @property
    def gaps(self) -> int:
        """How often a reply ran dry, not counting where the server held it because somebody spoke."""
        return max(len(self.playout.gaps_ms) - self.pauses, 0)

    @property
    def said_text(self) -> str:
        """The part of the reply that has been said."""
        spoken = self.spoken
        played_ms = spoken.forgotten_at_ms
        if played_ms is None:
            played_ms = self.playout.played_ms(spoken.item) if self.playout.busy else spoken.sound_ms
        return spoken.said(played_ms, self._pace)

    def push(self, event: ServerEvent) -> None:
        """Take the next event of the session."""
        body = event.body
        match event.type:
            case "input_audio_buffer.speech_started":
                self._interrupted()
            case "response.created":
                self.spoken, self._record = Spoken(), None
            case "response.output_audio_transcript.delta":
                self.spoken.text += body["delta"]
            case kind if kind == WORD_EVENT:
                self.spoken.add_word(body["text"], body["start_ms"])
            case "response.output_audio.delta":
                self._play(body["item_id"], body["delta"], event.received_at)
            case "response.output_audio.done":
                self._finish(body["item_id"])
            case kind if kind == TIMING_EVENT and body["record"]["status"] != "no_reply":
                self._record = body["record"]
                self.pauses += body["record"].get("pauses", 0)

    def poll(self, now: float) -> list[dict[str, Any]]:
        """What the server is to be told now: where a reply that was interrupted has really stopped."""
        spoken, played_ms = self.spoken, self.playout.played_ms(self.spoken.item)
        audible_from_ms = spoken.audible_from_ms
        if spoken.audible_at is None and audible_from_ms is not None and played_ms > audible_from_ms:
            spoken.audible_at = now
        if self._record is not None and spoken.audible_at is not None:
            if self._record["speech_end_ms"]:  # a turn that was spoken
                self._time(self._record, spoken.audible_at)
            self._record = None
        return [truncation(cut.item, cut.played_ms) for cut in self.playout.settle()]

    def _interrupted(self) -> None:
        spoken, playout = self.spoken, self.playout
        if spoken.item and spoken.forgotten_at_ms is None and (playout.busy or not spoken.complete):
            self.interruptions += 1
            spoken.forgotten_at_ms = playout.played_ms(spoken.item)
            playout.forget()

    def _play(self, item: str, delta: str, at: float) -> None:
        spoken = self.spoken
        if spoken.forgotten_at_ms is not None:  # it was on its way when the reply was cut
            return
        samples = WIRE.decode(base64.b64decode(delta))
        if spoken.received_at is None:
            spoken.received_at, spoken.item = at, item
        if spoken.audible_from_ms is None and (loud := first_audible(samples)) is not None:
            spoken.audible_from_ms = spoken.sound_ms + loud * 1000 / RATE_HZ
        spoken.sound_ms += len(samples) * 1000 / RATE_HZ
        self.playout.push(item, samples)

    def _finish(self, item: str) -> None:
        self.playout.finish(item)
        if item == self.spoken.item and self.spoken.forgotten_at_ms is None:
            self.spoken.complete = True
            self._pace = len(self.spoken.text) / max(self.spoken.sound_ms / 1000, 0.1)

    def _time(self, record: Mapping[str, Any], audible_at: float) -> None:
        """The turn on this machine's own clock, from its last sample of speech to the first audible one."""
        ended_at = self._microphone.spoken_at(record["speech_end_ms"] / 1000)
        marks = dict(record["marks_ms"])
        marks[RECEIVED] = ((self.spoken.received_at or audible_at) - ended_at) * 1000
        total_ms = round((audible_at - ended_at) * 1000)
        self.turns.append(Turn(total_ms, break_down(marks, total_ms)))
        del self.turns[:-5]


def truncation(item: str, played_ms: float) -> dict[str, Any]:
    """Tell the server how much of a reply was heard."""
    return {
        "type": "conversation.item.truncate",
        "item_id": item,
        "content_index": 0,
        "audio_end_ms": int(played_ms),
    }
