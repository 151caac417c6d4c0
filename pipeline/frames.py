"""What flows through a conversation: a closed union of frames, and the envelope that carries the turn number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tagged(Generic[T]):
    """A frame under its turn's number, with the clock time at which it was made."""

    turn: int
    born: float
    frame: T


# --- from the listener: positions are samples at 16 kHz since the session began ---


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Speech began; ``start`` is its first sample (before pre-roll)."""

    start: int


@dataclass(frozen=True, slots=True)
class SpeechPaused:
    """The pause is long enough to be one; ``end`` is the last sample of speech."""

    end: int


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """Speech goes on after a pause; ``start`` is its first sample."""

    start: int


VoiceEvent = SpeechStarted | SpeechPaused | SpeechResumed


# --- from the transcriber ---


@dataclass(frozen=True, slots=True)
class Partial:
    """What is heard so far. ``stable`` never changes within the turn, it only grows; ``unstable`` may."""

    stable: str
    unstable: str
    until: int


@dataclass(frozen=True, slots=True)
class Final:
    """The transcript of the turn up to the pause whose last speech sample is ``until``; "" if no words."""

    text: str
    until: int


Transcript = Partial | Final


# --- from the speech stage ---


@dataclass(frozen=True, slots=True)
class WordTime:
    """A word of the reply and the sample of the reply's audio at which it begins and ends."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SpokenAudio:
    """A piece of a reply's audio: PCM s16le mono at ``rate_hz``, with the words that fall into it.

    Word times are samples from the start of the *reply*, so pieces can be cut and joined freely.
    """

    pcm: bytes
    rate_hz: int
    words: tuple[WordTime, ...] = ()

    @property
    def duration_ms(self) -> float:
        """How long this piece sounds."""
        return len(self.pcm) / 2 / self.rate_hz * 1000
