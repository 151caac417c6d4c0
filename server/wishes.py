"""What a client's events ask of the session: values that the protocol returns, and their granting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from audio.format import Samples
from pipeline.ports import Message
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


Wish = HearSound | TakeSound | DropSound | Remember | Forget | Truncate | WantReply | CancelReply | Configure


class Truncatable(Protocol):
    """Who is told what is left of a truncated reply."""

    def truncated(self, item_id: str, heard: str) -> None:
        """Of this item's reply only these words were heard."""


async def grant(wish: Wish, session: Session, protocol: Truncatable) -> None:
    """Have the session do it. Waits only where sound comes in faster than it may be lost."""
    match wish:
        case HearSound(samples):
            await session.hear(samples)
        case TakeSound():
            await session.commit_sound()
        case DropSound():
            await session.clear_sound()
        case Remember(key, message, after):
            session.history.add(message, key, after)
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
