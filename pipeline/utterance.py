"""What the TurnKeeper remembers: the user's utterance, and where it and the reply stand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipeline.actions import Draft
from pipeline.endpointing import Evidence
from pipeline.interruption import Interruption, classify
from pipeline.novelty import LATEST_WORDS, echo_of, without_echo
from pipeline.ports import RATE_HZ
from pipeline.timing import EndedBy

# The end of a word that an update may have missed: it would hardly be another word.
UNHEARD_SAMPLES = RATE_HZ // 10


class Phase(Enum):
    """Where the user's utterance stands."""

    SPEAKING = "speaking"
    PAUSED = "paused"
    DECIDED = "decided"  # over by all evidence; the commit waits for the draft's first audio


class Floor(Enum):
    """Where the reply stands."""

    FREE = "free"
    SILENT = "silent"  # committed, nothing heard yet
    PLAYING = "playing"
    SUSPENDED = "suspended"  # somebody speaks over it


@dataclass(slots=True)
class Utterance:
    """What the user is saying; ``turn`` is 0 while it is only speech over a reply."""

    start: int
    began_at: float
    turn: int = 0
    phase: Phase = Phase.SPEAKING
    end: int = 0
    text: str = ""
    heard_until: int = 0
    final: str | None = None
    sound_done: float | None = None
    text_done: float | None = None
    judged: int = 0
    verdict_due: bool = False
    interrupts: bool = False
    draft: Draft | None = None
    audio_ready: bool = False
    decided_at: float = 0.0
    ended_by: EndedBy | None = None
    dismissed: bool = False
    over: str = ""  # the reply it began to be spoken over, and outlasted
    said_before: str = ""  # by the reply that it began to be spoken over
    echo: str = ""  # of that reply; may stand in front of its words
    by_client: bool = False  # the client ended it, and asks for the reply itself

    def pause(self, end: int) -> None:
        """A pause after the last speech sample ``end``: what was concluded about earlier pauses is void."""
        self.phase, self.end, self.final = Phase.PAUSED, end, None
        self.sound_done, self.judged, self.verdict_due = None, 0, False

    def resume(self) -> None:
        """The user goes on: the utterance is open again."""
        self.phase, self.final, self.ended_by = Phase.SPEAKING, None, None

    def meaning(self, said: str) -> Interruption:
        """What its words mean over a reply that has said this; words from long before are no echo any more."""
        return classify(self.text, echo_of(self.said_before, said, LATEST_WORDS))

    def take(self, text: str, *, final: bool = False) -> None:
        """The transcript so far, or at the pause, without the echo of the reply that it was spoken over."""
        self.text = without_echo(text, self.echo)
        self.final = self.text if final else self.final

    def leave_echo_out(self, said: str) -> None:
        """It is a turn, and this is how far the reply got that it was spoken over."""
        self.echo = echo_of(self.said_before, said)
        self.take(self.text, final=self.final is not None)

    @property
    def heard_out(self) -> bool:
        """Whether the words go up to the pause: the final ones, or an update's that missed next to nothing."""
        heard = self.final is not None or self.heard_until >= self.end - UNHEARD_SAMPLES
        return heard and self.phase is not Phase.SPEAKING

    @property
    def wants_reply(self) -> bool:
        """Whether there are words to answer; "stop" over a reply wants silence, and so does its own echo."""
        kind = classify(self.text, self.over)
        is_echo = bool(self.over) and kind is Interruption.NOTHING
        return bool(self.text) and not is_echo and not (self.interrupts and kind is Interruption.STOP)

    def evidence(self) -> Evidence:
        """What speaks for or against the turn being over."""
        return Evidence(self.text, self.sound_done, self.text_done)


def spoken_form(text: str) -> str:
    """The text as the model is given it, stable against what a recogniser is of two minds about.

    White space is collapsed, the first letter is large, and a full stop, comma or dash at the end is left out, so
    that a draft is not thrown away for a trailing dot. A question mark stays: it changes the answer.
    """
    plain = " ".join(text.split()).rstrip(" .,;:-…")
    return plain[:1].upper() + plain[1:]
