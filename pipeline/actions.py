"""Actions: what the TurnKeeper asks the session to do. Positions are samples at 16 kHz since the session began."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.timing import EndedBy


@dataclass(frozen=True, slots=True)
class BeginTurn:
    """The user has the floor: a turn begins with the utterance that is being heard."""

    turn: int
    start: int


@dataclass(frozen=True, slots=True)
class Hear:
    """Begin to transcribe from this sample (less pre-roll)."""

    start: int


@dataclass(frozen=True, slots=True)
class FinishHearing:
    """Make the final transcript up to this last sample of speech."""

    until: int


@dataclass(frozen=True, slots=True)
class ForgetHeard:
    """What was heard is no turn: drop its sound and text."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask by the sound whether the speaker is done; ``until`` comes back with the verdict."""

    until: int


@dataclass(frozen=True, slots=True)
class Draft:
    """Prepare a reply to this text, invisibly."""

    turn: int
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class DropDraft:
    """The draft is of no use any more."""

    turn: int
    number: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The turn is over: draft ``number`` is the reply. The one way out for a draft."""

    turn: int
    number: int
    text: str
    ended_by: EndedBy
    decided_at: float


@dataclass(frozen=True, slots=True)
class Reopen:
    """The user goes on. ``committed``: the commit stood already, but nothing of the reply was heard."""

    turn: int
    committed: bool


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is over without a reply: there were no words, or the words were "stop".

    ``kept``: the words are remembered, because the client asks for the reply itself.
    """

    turn: int
    ended_by: EndedBy
    text: str = ""
    kept: bool = False


@dataclass(frozen=True, slots=True)
class ForgetTurn:
    """The client threw away the sound of this turn."""

    turn: int


@dataclass(frozen=True, slots=True)
class FailTurn:
    """The turn is over because a stage did not deliver."""

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class PausePlayback:
    """Fade the reply out and hold it: somebody speaks."""

    turn: int


@dataclass(frozen=True, slots=True)
class ResumePlayback:
    """It was nothing: go on from the exact sample."""

    turn: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The reply is interrupted: cancel all of its turn."""

    turn: int


Action = (
    BeginTurn
    | Hear
    | FinishHearing
    | ForgetHeard
    | Judge
    | Draft
    | DropDraft
    | Commit
    | Reopen
    | EndTurn
    | ForgetTurn
    | FailTurn
    | PausePlayback
    | ResumePlayback
    | Cut
)
