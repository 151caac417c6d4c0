"""Speech over a reply: what is to become of the two, by how long it lasts and by what it says. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pipeline.config import TurnConfig
from pipeline.floor import Floor
from pipeline.interruption import Interruption
from pipeline.utterance import Phase, Utterance


class Reaction(Enum):
    """What to do about it."""

    NONE = "none"
    SUSPEND = "suspend"  # the reply pauses until it is known what this is
    CUT = "cut"  # the reply ends: this is an interruption
    DISMISS = "dismiss"  # the reply goes on; words may still make this an interruption
    FORGET = "forget"  # the reply goes on, and this was nothing
    HEAR_OUT = "hear out"  # the transcript will tell


@dataclass(frozen=True, slots=True)
class OverReply:
    """An utterance that is no turn so far, over a reply; ``playing`` gives the words of it that were heard."""

    utterance: Utterance
    floor: Floor
    spoken_ms: float
    playing: Callable[[], str]
    config: TurnConfig

    @property
    def meaning(self) -> Interruption:
        """What its words mean."""
        return self.utterance.meaning(self.playing())

    def at_sound(self) -> Reaction:
        """Time passes while somebody speaks."""
        utterance, config = self.utterance, self.config
        if utterance.phase is not Phase.SPEAKING or utterance.dismissed:
            return Reaction.NONE
        if self.floor is Floor.PLAYING and config.interrupts and self.spoken_ms >= config.barge_in_ms:
            return Reaction.SUSPEND
        if self.spoken_ms >= config.barge_in_sure_ms and not utterance.heard_until:
            return Reaction.CUT
        if self.spoken_ms >= (config.backchannel_ms if utterance.text else config.wordless_ms):
            return Reaction.DISMISS if self.meaning is Interruption.NOTHING else Reaction.CUT
        return Reaction.NONE

    def at_words(self) -> Reaction:
        """Words come in while somebody speaks."""
        kind, sure = self.meaning, self.spoken_ms >= self.config.barge_in_word_ms
        wanted = kind is Interruption.STOP or (kind is Interruption.WORDS and sure)
        return Reaction.CUT if wanted else Reaction.NONE

    def at_pause(self) -> Reaction:
        """Nobody speaks any more: what was too short to make the reply pause is not worth a transcript."""
        too_short = self.config.interrupts or self.spoken_ms < self.config.barge_in_ms
        nothing = self.floor is Floor.PLAYING and not self.utterance.dismissed and too_short
        return Reaction.FORGET if nothing else Reaction.HEAR_OUT

    def at_final(self) -> Reaction:
        """The transcript says what it was."""
        nothing = self.meaning in (Interruption.NOTHING, Interruption.BACKCHANNEL)
        return Reaction.FORGET if nothing else Reaction.CUT
