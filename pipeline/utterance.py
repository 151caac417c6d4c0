"""What the TurnKeeper remembers of the user's utterance."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from statistics import fmean

from pipeline.actions import Action, Draft, DropDraft, Judge
from pipeline.endpointing import Evidence
from pipeline.interruption import Interruption, classify
from pipeline.novelty import LATEST_WORDS, echo_of, without_echo
from pipeline.ports import RATE_HZ, SAMPLES_PER_MS
from pipeline.timing import EndedBy

# The end of a word that an update may have missed: it would hardly be another word.
UNHEARD_SAMPLES = RATE_HZ // 10
# Silences after which the sound is judged while the turn is still undecided. The first verdict is made beside the
# transcript: later it would slow down the reply, and it is no worse for that.
JUDGE_AT_MS = (0.0, 300.0, 500.0, 800.0, 1100.0)


class Phase(Enum):
    """Where the user's utterance stands."""

    SPEAKING = "speaking"
    PAUSED = "paused"
    DECIDED = "decided"  # over by all evidence; the commit waits for the draft's first audio


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
    verdicts: list[float] = field(default_factory=list)
    text_done: float | None = None
    judged: int = 0
    verdict_due: bool = False
    interrupts: bool = False
    draft: Draft | None = None
    drafts: int = 0  # made of it so far
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
        self.verdicts, self.judged, self.verdict_due = [], 0, False

    def resume(self) -> None:
        """The user goes on: the utterance is open again."""
        self.phase, self.final, self.ended_by = Phase.SPEAKING, None, None

    def next_judgement(self, silence_ms: float, sure: float) -> list[Action]:
        """Have the sound judged, or once more; not where its verdict is ``sure``."""
        due = self.judged < len(JUDGE_AT_MS) and silence_ms >= JUDGE_AT_MS[self.judged]
        if not due or self.verdict_due or (self.sound_done or 0.0) >= sure:
            return []
        self.judged += 1
        self.verdict_due = True
        return [Judge(self.end)]

    def weigh(self, probability: float) -> None:
        """The sound's verdict on the pause."""
        self.verdicts.append(probability)
        self.verdict_due = False

    @property
    def sound_done(self) -> float | None:
        """All verdicts alike: the longer a silence lasts, the more it sounds like the end, whatever was said."""
        return fmean(self.verdicts) if self.verdicts else None

    def draft_anew(self) -> list[Action]:
        """A draft that answers the words so far, in the place of one that answers others."""
        text = spoken_form(self.text)
        if self.draft is not None and self.draft.text == text:
            return []
        dropped = self.drop_draft()
        self.drafts += 1
        self.draft = Draft(self.turn, self.drafts, text)
        return [*dropped, self.draft]

    def drop_draft(self) -> list[Action]:
        """The draft, if there is one, answers what was not meant."""
        if self.draft is None:
            return []
        dropped = DropDraft(self.turn, self.draft.number)
        self.draft, self.text_done, self.audio_ready = None, None, False
        return [dropped]

    def spoken_ms(self, last_speech: int) -> float:
        """How long it has lasted, where this is the last sample that sounded like speech."""
        until = last_speech if self.phase is Phase.SPEAKING else self.end
        return (until - self.start) / SAMPLES_PER_MS

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
