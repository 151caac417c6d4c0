"""Repetition: where a transcript starts to say again what it said already. Pure text.

A recogniser that is not told where the sound ends in silence goes back and transcribes it once more: "Please
keep in touch. Please keep in touch. Please". People repeat themselves too, so this is a reason to look again.
"""

from __future__ import annotations

import re

_NOT_IN_WORDS = re.compile(r"[^\w']+")


def without_repetition(text: str, known: str = "") -> str:
    """The text up to the place from which on it only repeats itself; the whole text where there is none.

    What the text is ``known`` to begin with is never cut.
    """
    words = text.split()
    keys = [_NOT_IN_WORDS.sub("", word.lower()) for word in words]
    for start in range(max(1, len(known.split())), len(keys)):
        if any(_repeats(keys, start, period) for period in range(1, start + 1)):
            return " ".join(words[:start])
    return text


def _repeats(keys: list[str], start: int, period: int) -> bool:
    """Whether all words from ``start`` on are the ones ``period`` words before, and enough of them.

    Enough is a whole period; two words where they are the text's first ones; three anywhere else.
    """
    enough = min(period, 2 if period == start else 3)
    return len(keys) - start >= enough and keys[start:] == keys[start - period : len(keys) - period]
