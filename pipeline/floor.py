"""The floor: whose reply has it, and where that reply stands."""

from __future__ import annotations

from enum import Enum

from pipeline.actions import Action, Cut, PausePlayback, ResumePlayback
from pipeline.utterance import Utterance


class Floor(Enum):
    """Where the reply stands."""

    FREE = "free"
    SILENT = "silent"  # committed, nothing heard yet
    PLAYING = "playing"
    SUSPENDED = "suspended"  # somebody speaks over it


class ReplyFloor:
    """The reply's half of what the TurnKeeper knows; it judges nothing. ``turn`` is 0 while the floor is free."""

    def __init__(self) -> None:
        self.stands = Floor.FREE
        self.turn = 0
        self._answered: Utterance | None = None  # can be reopened until something of the reply was heard

    @property
    def free(self) -> bool:
        """Whether no reply is under way."""
        return self.stands is Floor.FREE

    def take(self, turn: int, answered: Utterance | None = None) -> None:
        """The turn's reply is under way, and answers this utterance or what nobody can take back."""
        self.stands, self.turn, self._answered = Floor.SILENT, turn, answered

    def take_back(self) -> Utterance | None:
        """The utterance whose reply nobody has heard, the floor being free again; None where there is none."""
        answered = self._answered
        if answered is not None:
            self.release()
        return answered

    def heard(self, turn: int) -> None:
        """The first audio of the turn's reply has left."""
        if turn == self.turn and self.stands is Floor.SILENT:
            self.stands, self._answered = Floor.PLAYING, None

    def suspend(self) -> list[Action]:
        """Somebody speaks over it."""
        self.stands = Floor.SUSPENDED
        return [PausePlayback(self.turn)]

    def resume(self) -> list[Action]:
        """It goes on, if it was suspended."""
        if self.stands is not Floor.SUSPENDED:
            return []
        self.stands = Floor.PLAYING
        return [ResumePlayback(self.turn)]

    def cut(self) -> Cut:
        """It ends here."""
        cut = Cut(self.turn)
        self.release()
        return cut

    def release(self) -> None:
        """The floor is free."""
        self.stands, self.turn, self._answered = Floor.FREE, 0, None
