"""What a client's events ask of the session: values that the protocol returns, and their granting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from audio.format import Samples
from pipeline.ports import Message, StageError
from pipeline.requests import ReplyRequest, TurnDetection
from pipeline.session import Session


@dataclass(frozen=True, slots=True)
class HearSound:
    """Sound for the session: float32 mono at 16 kHz."""

    samples: Samples


@dataclass(frozen=True, slots=True)
class TakeSound:
    """The sound so far is the user's turn."""


@dataclass(frozen=True, slots=True)
class DropSound:
    """The sound so far counts for nothing."""


@dataclass(frozen=True, slots=True)
class Remember:
    """A message of the conversation; ``after`` are the keys before it, None puts it at the end."""

    key: str
    message: Message
    after: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Understand:
    """A message that the client made holds recordings, each with its place: float32 mono at 16 kHz.

    ``after`` are the keys before the message: others may come while its words are awaited.
    """

    item: Mapping[str, Any]
    recordings: Mapping[int, Samples]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """A message is taken out of the conversation."""

    key: str


@dataclass(frozen=True, slots=True)
class Truncate:
    """The client played no more of this turn's reply; ``item_id`` is the item that is to say what was heard."""

    item_id: str
    turn: int
    heard_ms: float


@dataclass(frozen=True, slots=True)
class WantReply:
    """A reply is asked for."""

    request: ReplyRequest


@dataclass(frozen=True, slots=True)
class CancelReply:
    """A reply is not wanted: the one asked for under the key, that of the turn, or the one with the floor."""

    key: str = ""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Configure:
    """How the session is to go on."""

    instructions: str
    detection: TurnDetection
    defaults: ReplyRequest


Wish = (
    HearSound
    | TakeSound
    | DropSound
    | Remember
    | Understand
    | Forget
    | Truncate
    | WantReply
    | CancelReply
    | Configure
)


class Wisher(Protocol):
    """Who is told what came of its wishes."""

    def truncated(self, item_id: str, heard: str) -> None:
        """Of this item's reply only these words were heard."""

    def understood(self, wish: Understand, words: Mapping[int, str]) -> Sequence[Wish]:
        """These are the words in its recordings; returns what is to be done about them."""

    def not_understood(self, wish: Understand, error: str) -> None:
        """The words in its recordings will not be known."""


async def grant(wish: Wish, session: Session, protocol: Wisher) -> None:
    """Have the session do it. Waits for a recording's words, and where sound comes faster than it may be lost."""
    match wish:
        case HearSound(samples):
            await session.hear(samples)
        case TakeSound():
            await session.commit_sound()
        case DropSound():
            await session.clear_sound()
        case Remember(key, message, after):
            session.history.add(message, key, after)
        case Understand():
            await _understand(wish, session, protocol)
        case Forget(key):
            session.history.remove(key)
        case Truncate(item_id, turn, heard_ms):
            heard = session.truncate(turn, heard_ms)
            if heard is not None:
                protocol.truncated(item_id, heard)
        case WantReply(request):
            await session.respond(request)
        case CancelReply(key, turn):
            await session.cancel(key, turn)
        case Configure(instructions, detection, defaults):
            session.history.instructions = instructions
            await session.configure(detection, defaults)


async def _understand(wish: Understand, session: Session, protocol: Wisher) -> None:
    """What the client sends after it waits, so that a reply it asks for has the words."""
    try:
        words = {place: await session.understand(sound) for place, sound in wish.recordings.items()}
    except StageError as error:
        protocol.not_understood(wish, str(error))
        return
    for more in protocol.understood(wish, words):
        await grant(more, session, protocol)
