"""What a client hears of a session: transcripts, replies, and when their sound comes out of the speaker."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ, WIRE, ServerEvent, error_message

AUDIBLE_LEVEL = 0.01  # a sample above this is heard; below it is the breath in front of a phrase
TIMING_EVENT = "echoic.turn"
TAIL_EVENT = "echoic.tail"
WORD_EVENT = "echoic.word"


@dataclass(frozen=True, slots=True)
class Piece:
    """Sound as it arrived: float32 mono at 24 kHz, and the loop's time."""

    samples: NDArray[np.float32]
    received_at: float


@dataclass(slots=True)
class Reply:
    """One response of the server, as far as it has come."""

    id: str
    created_at: float
    heard: str = ""  # what the server heard before it answered
    text: str = ""
    status: str = "in_progress"
    error: str = ""
    pieces: list[Piece] = field(default_factory=list)
    record: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """Whether the server has said that this reply is over, however it ended."""
        return self.status != "in_progress"


@dataclass(frozen=True, slots=True)
class Playback:
    """How a reply sounds to someone who plays each piece as it comes. Times are the loop's."""

    received_at: float
    audible_at: float | None
    ends_at: float
    gaps_ms: tuple[float, ...]
    starts: tuple[float, ...]


class Hearing:
    """Collects a session's events into transcripts and replies. Pure: it is given events, it does no I/O."""

    def __init__(self) -> None:
        self.user_speaking = False
        self.speech_starts = 0
        self.last_news_at = 0.0
        self.replies: list[Reply] = []
        self.errors: list[str] = []
        self.unanswered: list[dict[str, Any]] = []  # records of turns that got no reply
        self.unstable = ""  # what was heard after the words that will not change any more
        self._item = ""  # the turn that is being spoken, or was last
        self._transcripts: dict[str, str] = {}
        self._by_id: dict[str, Reply] = {}

    @property
    def transcript(self) -> str:
        """Everything that was heard of the user, over all turns."""
        return " ".join(text.strip() for text in self._transcripts.values() if text.strip())

    @property
    def current(self) -> str:
        """What was heard of the latest turn, as far as it will not change any more."""
        return self._transcripts.get(self._item, "").strip()

    @property
    def open_reply(self) -> Reply | None:
        """The reply that is being made, if any."""
        return self.replies[-1] if self.replies and not self.replies[-1].finished else None

    def push(self, event: ServerEvent) -> None:
        """Take the next event."""
        body = event.body
        match event.type:
            case "input_audio_buffer.speech_started":
                self.user_speaking, self.unstable, self._item = True, "", body.get("item_id", "")
                self.speech_starts += 1
            case "input_audio_buffer.speech_stopped":
                self.user_speaking = False
            case "conversation.item.input_audio_transcription.delta":
                self._transcripts[body["item_id"]] = self._transcripts.get(body["item_id"], "") + body["delta"]
            case "conversation.item.input_audio_transcription.completed":
                self._transcripts[body["item_id"]] = body["transcript"]
            case "conversation.item.deleted":  # the turn went on after all, as another item
                self._transcripts.pop(body["item_id"], None)
            case "error":
                self.errors.append(error_message(event))
            case kind if kind == TAIL_EVENT:
                self.unstable = body["text"]
            case kind if kind == TIMING_EVENT:
                self._attach(body["record"])
            case kind if kind.startswith("response."):
                self._push_response(event)
        self.last_news_at = event.received_at

    def _push_response(self, event: ServerEvent) -> None:
        body = event.body
        if event.type == "response.created":
            self._open(body["response"]["id"], event.received_at)
        elif event.type == "response.done":
            self._finish(body["response"])
        elif reply := self._by_id.get(body.get("response_id", "")):
            match event.type:
                case "response.output_audio.delta":
                    samples = WIRE.decode(base64.b64decode(body["delta"]))
                    reply.pieces.append(Piece(samples, event.received_at))
                case "response.output_audio_transcript.delta" | "response.output_text.delta":
                    reply.text += body["delta"]

    def _open(self, response_id: str, at: float) -> None:
        heard = next(reversed(self._transcripts.values()), "")
        reply = Reply(response_id, at, heard=heard.strip())
        self.replies.append(reply)
        self._by_id[response_id] = reply

    def _finish(self, response: dict[str, Any]) -> None:
        if reply := self._by_id.get(response["id"]):
            reply.status = response["status"]
            details = response.get("status_details") or {}
            reply.error = (details.get("error") or {}).get("message", "")

    def _attach(self, record: dict[str, Any]) -> None:
        """A record comes right after the reply it tells of, unless its turn got none."""
        latest = next((reply for reply in reversed(self.replies) if reply.finished and reply.record is None), None)
        if latest is None or record.get("status") == "no_reply":
            self.unanswered.append(record)
        else:
            latest.record = record


def play_back(pieces: Sequence[Piece]) -> Playback | None:
    """Simulate a player without a buffer: each piece as it comes, or right after the one before it."""
    if not pieces:
        return None
    audible_at: float | None = None
    gaps: list[float] = []
    starts: list[float] = []
    playhead = pieces[0].received_at
    for piece in pieces:
        if piece.received_at > playhead:
            gaps.append((piece.received_at - playhead) * 1000)
        begins = max(playhead, piece.received_at)
        starts.append(begins)
        if audible_at is None and (loud := first_audible(piece.samples)) is not None:
            audible_at = begins + loud / RATE_HZ
        playhead = begins + len(piece.samples) / RATE_HZ
    return Playback(pieces[0].received_at, audible_at, playhead, tuple(gaps), tuple(starts))


def first_audible(samples: NDArray[np.float32]) -> int | None:
    """The index of the first sample that can be heard."""
    loud = np.flatnonzero(np.abs(samples) > AUDIBLE_LEVEL)
    return int(loud[0]) if len(loud) else None


def mix_down(sounds: Iterable[tuple[float, NDArray[np.float32]]], length: int) -> NDArray[np.float32]:
    """Sounds laid onto one silent track of ``length`` samples at 24 kHz, each at its position in seconds."""
    track = np.zeros(length, np.float32)
    for position_s, samples in sounds:
        at = max(round(position_s * RATE_HZ), 0)
        piece = samples[: max(length - at, 0)]
        track[at : at + len(piece)] += piece
    return track
