"""PhraseCutter: cuts a growing text into phrases for a voice, the first one short, the later ones longer.

A phrase plays for about 350 ms a word, while a model writes and a voice speaks several times faster than that.
So a reply can begin after a few words, and as long as no phrase is more than about twice as long as what is
already playing, the next one is ready before it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Pace:
    """How many words a phrase needs before it may be cut, by the place where it would be cut.

    ``clause``: after a comma or its like; ``group``: before a word that opens a group of words ("of", "is");
    ``word``: after any word that can stand last. A sentence may be cut off however short it is.
    """

    clause: int
    group: int
    word: int


# One entry a phrase; the last one repeats.
PACES = (Pace(1, 3, 6), Pace(3, 6, 12), Pace(5, 12, 20), Pace(8, 20, 30))
# The chunk schedule of the hosted speech services, in characters: here the longest that a phrase may become.
LIMITS = (120, 160, 250, 290)
# No word is as long as this: text without a space is cut here, so that nothing grows.
LONGEST_WORD = 2_000

Ending = Literal["sentence", "clause", "word", "number", "unclear", "none"]

_OPENING, _CLOSING = "([{\"'“‘«", ")]}\"'”’»"
_FULL_WIDTH_ENDS = "。！？"  # no white space follows these


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A full stop belongs to these, whatever follows.
_ABBREVIATIONS = _words(
    "mr mrs ms mx dr prof st gen sen rep gov lt col sgt capt cmdr rev hon pres mt ft messrs mme "
    "e.g i.e vs cf viz al ca approx esp fig figs vol eds ver"
)
_BEFORE_NUMBERS = _words("no nos nr p pp ch sec art eq jan feb mar apr jun jul aug sep sept oct nov dec")
# What may follow "U.S.", "p.m." or "B." to make it an end: "in the U.S. The", but "the U.S. Army".
_FIRST_WORDS = _words(
    "the a an this that these those it he she they we you i there here in on at as if when while after before "
    "but and so or for however what who why how where is are do does"
)
_OPENERS = _words(
    "of in on at by for to from with without into onto over under between among through during before after about "
    "against like than and or but nor so because although though while when where which who whose whom that if "
    "unless until since as is are was were has have had will would can could should may might must"
)
_NEVER_LAST = _OPENERS | _words(
    "a an the my your his her its our their this these those some any no every each all both many much more most "
    "very such not one lot lots kind sort out what how i you he she we they it i'm you're he's she's it's we're "
    "they're that's there's there let's don't be been being do does did dr mr mrs ms st"
)


class PhraseCutter:
    """Fed with text in any pieces; gives phrases as early as they are decent. Phrases joined are the text.

    It decides at one character at a time and only where white space meets a word, so the pieces cannot matter, and
    nothing inside a word ("3.5", "10:30", a URL, an address) is ever an end. A full stop counts as one only when
    the next word has shown how it begins, or which it is. ``limits`` are the most characters a phrase may have.
    """

    def __init__(self, limits: Sequence[int] = LIMITS) -> None:
        self.limits = tuple(limits)
        self._text = ""
        self._phrases = 0

    @property
    def pending(self) -> str:
        """The text that is not cut yet."""
        return self._text

    @property
    def limit(self) -> int:
        """The most characters that the next phrase may have."""
        return self.limits[min(self._phrases, len(self.limits) - 1)]

    def push(self, text: str) -> list[str]:
        """More text; returns the phrases that are complete by now, white space kept."""
        phrases = []
        for character in text:
            self._text += character
            if end := self._end():
                phrases.append(self._take(end))
        return phrases

    def finish(self, last: str = "") -> list[str]:
        """What is pending and a ``last`` piece of text, as one phrase if the limit allows; [] if nothing is said.

        More may follow: this is a flush.
        """
        if len(self._text) + len(last) > self.limit:
            phrases = self.push(last)
        else:
            phrases = []
            self._text += last
        rest = self._take(len(self._text))
        return [*phrases, rest] if rest.strip() else phrases

    def _take(self, end: int) -> str:
        phrase, self._text = self._text[:end], self._text[end:]
        self._phrases += bool(phrase.strip())
        return phrase

    def _end(self) -> int:
        """Where the phrase ends, given the character that has just come; 0 if not yet."""
        if len(self._text) < 2:
            return 0
        if len(self._text) >= LONGEST_WORD:
            return len(self._text)
        before, now = self._text[-2], self._text[-1]
        if now.isspace():
            return 0 if before.isspace() else self._end_before_word()
        if before.isspace():
            return self._end_after_word(now)
        if before in _FULL_WIDTH_ENDS and now not in _FULL_WIDTH_ENDS + _CLOSING:
            return len(self._text) - 1
        return 0

    def _end_after_word(self, following: str) -> int:
        """A new word has shown its first character: is what stands before it a phrase?"""
        head = self._text[:-1]
        words = head.split()
        spoken = _count_spoken(words)
        if not spoken:
            return 0
        needed = {"sentence": 1, "clause": self._pace.clause, "word": self._pace.word}
        ending = _ending(words, following)
        line_ends = "\n" in head[len(head.rstrip()) :]
        too_long = len(head) >= self.limit
        return len(head) if line_ends or too_long or spoken >= needed.get(ending, math.inf) else 0

    def _end_before_word(self) -> int:
        """A word is complete: does it begin a new phrase?"""
        *head, word = self._text.split()
        spoken = _count_spoken(head)
        if not spoken:
            return 0
        ending = _ending(head, word[0])
        opens_sentence = ending == "unclear" and word[0].isupper() and word.lower() in _FIRST_WORDS
        opens_group = ending in ("word", "number") and word in _OPENERS and spoken >= self._pace.group
        too_long = len(self._text) > self.limit
        return len(self._text) - 1 - len(word) if opens_sentence or opens_group or too_long else 0

    @property
    def _pace(self) -> Pace:
        return PACES[min(self._phrases, len(PACES) - 1)]


def _count_spoken(words: list[str]) -> int:
    return sum(any(map(str.isalnum, word)) for word in words)


def _ending(words: list[str], following: str) -> Ending:
    """What the last word ends, when the next one begins with ``following``; "none": nothing may be cut here."""
    word = words[-1].rstrip(_CLOSING)
    bare = word.lstrip(_OPENING).rstrip(".,;:!?…—–").lower()
    if bare in _ABBREVIATIONS:
        return "none"
    match word[-1:]:
        case "." if not word.endswith(".."):
            return _full_stop(bare, following, alone=len(words) == 1)
        case "!" | "?" | "…" | ".":
            return "clause" if following.islower() else "sentence"
        case "," if bare[-1:].isdigit() and following.isdigit():
            return "none"  # "March 3, 2024"
        case "," | ";" | ":" | "—" | "–" | "-":
            return "clause"
    if bare[-1:].isdigit():
        return "number"  # its unit or its noun may follow
    return "none" if bare in _NEVER_LAST else "word"


def _full_stop(bare: str, following: str, alone: bool) -> Ending:
    """What a full stop after this word ends; ``alone``: nothing stands before the word."""
    if following.islower() or not bare:
        return "none"
    if bare in _BEFORE_NUMBERS and following.isdigit():
        return "none"
    if bare.isdigit() and len(bare) < 3 and alone:
        return "none"  # the number of a list item
    is_letter = len(bare) == 1 and bare.isalpha() and bare != "i"
    is_acronym = "." in bare and all(part.isalpha() and len(part) <= 2 for part in bare.split("."))
    if is_letter or is_acronym:
        return "unclear"
    return "sentence"
