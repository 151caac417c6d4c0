"""Whether what was heard is what was said: word errors, and replies that came too early."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SPELLED = {"mr": "mister", "mrs": "missus", "dr": "doctor", "ok": "okay", "&": "and", "%": "percent"}

# A reply that was begun in a pause may become audible only this long after the pause.
PAUSE_REACTION_S = 0.5


class CutOff(StrEnum):
    """Whether a reply was heard before the speaker was done, and where it broke in."""

    NONE = "none"
    IN_PAUSE = "in_pause"
    IN_SPEECH = "in_speech"


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Errors against the words of the reference; adds up over clips into a micro-average."""

    errors: int = 0
    words: int = 0

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(self.errors + other.errors, self.words + other.words)

    @property
    def rate(self) -> float | None:
        """Errors a word; None without words."""
        return self.errors / self.words if self.words else None


def normalise(text: str) -> str:
    """The words alone: lower case, no punctuation, hyphens as spaces, numbers and common short forms spelled.

    Numbers up to 99 become words; longer runs of digits are read digit by digit, as telephone numbers are.
    """
    spaced = re.sub(r"([&%])", r" \1 ", text.lower())
    spaced = re.sub(r"[-‐-―/]", " ", spaced)
    kept = "".join(char for char in spaced if char in "&%" or not _is_punctuation(char))
    return " ".join(_spell(word) for word in kept.split())


def word_errors(reference: str, heard: str) -> WordErrors:
    """Substitutions, insertions and deletions between two texts, both normalised."""
    import jiwer

    said, got = normalise(reference), normalise(heard)
    if not said:
        return WordErrors(errors=len(got.split()), words=0)
    counts = jiwer.process_words(said, got)
    return WordErrors(counts.substitutions + counts.insertions + counts.deletions, len(said.split()))


def total_errors(counts: Iterable[WordErrors]) -> WordErrors:
    """The sum, for a micro-average."""
    return sum(counts, WordErrors())


def classify_cut_off(heard_s: float, speech_end_s: float, pauses: Sequence[tuple[float, float]] = ()) -> CutOff:
    """Where a reply first heard at ``heard_s`` of the recording falls; pauses are (start, length) in seconds."""
    if heard_s >= speech_end_s:
        return CutOff.NONE
    in_pause = any(start <= heard_s < start + length + PAUSE_REACTION_S for start, length in pauses)
    return CutOff.IN_PAUSE if in_pause else CutOff.IN_SPEECH


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char)[0] in "PS"


def _spell(word: str) -> str:
    if not word.isascii() or not word.isdigit():
        return _SPELLED.get(word, word)
    if len(word) > 2 or (len(word) == 2 and word[0] == "0"):
        return " ".join(_UNITS[int(digit)] for digit in word)
    number = int(word)
    if number < len(_UNITS):
        return _UNITS[number]
    tens = _TENS[number // 10 - 2]
    return f"{tens} {_UNITS[number % 10]}" if number % 10 else tens
