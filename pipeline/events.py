"""What a session tells the outside: a closed union of events, each under its turn's number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.ports import PromptRead, ToolCall
from pipeline.timing import TurnRecord

ReplyStatus = Literal["completed", "cancelled", "failed", "incomplete"]


@dataclass(frozen=True, slots=True)
class UserStarted:
    """The user began a turn; ``start_ms`` of session audio, pre-roll included."""

    turn: int
    start_ms: float


@dataclass(frozen=True, slots=True)
class UserStopped:
    """The user's turn is over at ``end_ms`` of session audio; None where the client said so, not the sound."""

    turn: int
    end_ms: float | None


@dataclass(frozen=True, slots=True)
class UserTranscript:
    """The user's words, once and for all; ``heard_s`` is how long the turn's sound is."""

    turn: int
    text: str
    heard_s: float


@dataclass(frozen=True, slots=True)
class UserWords:
    """More words that will not change any more, while the user still speaks."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class UserTail:
    """The newest words of the user, which may still change; they stand behind the certain ones."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class TurnReopened:
    """The turn was announced as over, but the user goes on and nothing of the reply was heard."""

    turn: int


@dataclass(frozen=True, slots=True)
class ReplyStarted:
    """A reply to the turn begins; ``key`` is that of the request it comes from, "" for a spoken turn's."""

    turn: int
    key: str = ""


@dataclass(frozen=True, slots=True)
class ReplyRefused:
    """The reply that was asked for cannot be: another one is going on."""

    key: str


@dataclass(frozen=True, slots=True)
class ReplyCalled:
    """The reply asks for a tool."""

    turn: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ReplyText:
    """More of the reply's text."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class ReplyWord:
    """A word of the reply and when it sounds, in milliseconds of the reply's audio."""

    turn: int
    text: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """More of the reply's audio: PCM s16le mono at ``rate_hz``, due now."""

    turn: int
    pcm: bytes
    rate_hz: int


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The reply is over. ``heard`` is what of it the user can have heard; ``error`` says why it failed.

    ``read`` is None where the model does not say how much it read.
    """

    turn: int
    status: ReplyStatus
    text: str
    heard: str
    reply_tokens: int
    error: str = ""
    read: PromptRead | None = None


@dataclass(frozen=True, slots=True)
class MemoryHeld:
    """What the echoic memory holds has changed, or begins or ceases to run out.

    ``weights``: of the segments, the oldest first. ``left_s``: until all is gone. ``fading``: nobody is heard.
    """

    weights: tuple[float, ...]
    left_s: float
    fading: bool


@dataclass(frozen=True, slots=True)
class NobodySpoke:
    """Nobody has said anything since the last reply, from ``start_ms`` to ``end_ms``; a reply to that follows."""

    turn: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class TurnClosed:
    """All that belonged to the turn is done; its record is complete."""

    record: TurnRecord


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn cannot be answered."""

    turn: int
    error: str


SessionEvent = (
    UserStarted
    | UserStopped
    | UserTranscript
    | UserWords
    | UserTail
    | TurnReopened
    | NobodySpoke
    | MemoryHeld
    | ReplyStarted
    | ReplyRefused
    | ReplyText
    | ReplyCalled
    | ReplyWord
    | ReplyAudio
    | ReplyEnded
    | TurnClosed
    | TurnFailed
)
