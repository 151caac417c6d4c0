"""Novelty: which of the words that were heard are not the assistant's own, come back as an echo. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

import numpy as np

# A recogniser makes other words of an echo, but not very other ones.
_ALIKE = 0.76
_SKIPPED = 0.5  # the cost of a word of the reply that was not heard in the middle of those that were
LATE_WORDS = 3  # are said within a pre-roll, a network's way and a room's
LATEST_WORDS = 12  # by way of a client that plays whole seconds later
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def novel_words(heard: str, said: str) -> list[str]:
    """The words of ``heard`` that ``said`` does not explain, in their order.

    The words that were heard are laid along that stretch of what was said which fits them best; those that have no
    like there are new.
    """
    ours, theirs = _words(said), _words(heard)
    if not ours or not theirs:
        return theirs
    # cost[i, j]: of the first i words heard, laid along some stretch that ends before word j of what was said.
    cost = np.zeros((len(theirs) + 1, len(ours) + 1))
    cost[:, 0] = np.arange(len(theirs) + 1)
    for i, word in enumerate(theirs, start=1):
        for j, own in enumerate(ours, start=1):
            unlike = 1.0 - _likeness(word, own)
            cost[i, j] = min(cost[i - 1, j - 1] + unlike, cost[i - 1, j] + 1.0, cost[i, j - 1] + _SKIPPED)
    return _unexplained(cost, ours, theirs)


def echo_of(said_before: str, said: str, late_words: int = LATE_WORDS) -> str:
    """What can be in the sound of somebody who began to speak after ``said_before``, and was alone after ``said``.

    An echo comes ``late_words`` late at most.
    """
    return " ".join(_words(said)[max(len(_words(said_before)) - late_words, 0) :])


def without_echo(heard: str, echo: str) -> str:
    """What was heard, without the words in front that repeat the echo; as it is, where nothing else would be left.

    A single word is not taken for an echo: too many sentences begin with the same one.
    """
    words = list(_WORD.finditer(heard)) if novel_words(heard, echo) else []
    for count in range(min(len(words) - 1, len(_words(echo))), 1, -1):
        if not novel_words(heard[: words[count - 1].end()], echo):
            return heard[words[count].start() :]
    return heard


def _unexplained(
    cost: np.ndarray[tuple[int, int], np.dtype[np.float64]], ours: list[str], theirs: list[str]
) -> list[str]:
    """Walk the cheapest way back and gather the words that met no like of theirs."""
    novel: list[str] = []
    i, j = len(theirs), int(np.argmin(cost[-1]))
    while i:
        if j and np.isclose(cost[i, j], cost[i, j - 1] + _SKIPPED):
            j -= 1
            continue
        likeness = _likeness(theirs[i - 1], ours[j - 1]) if j else 0.0
        met = bool(j) and np.isclose(cost[i, j], cost[i - 1, j - 1] + 1.0 - likeness)
        if not met or not likeness:
            novel.append(theirs[i - 1])
        i, j = i - 1, j - int(met)
    return novel[::-1]


@lru_cache(maxsize=4096)
def _likeness(one: str, other: str) -> float:
    """1 for the same word, 0 for another one."""
    if one == other:
        return 1.0
    ratio = SequenceMatcher(None, one, other, autojunk=False).ratio()
    return ratio if ratio >= _ALIKE and min(len(one), len(other)) > 2 else 0.0


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
