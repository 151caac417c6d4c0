"""Agreement: which words of a growing transcript can be relied on. Pure text, no sound and no clock."""

from __future__ import annotations

import re

# The last word of a hypothesis is often half a word or carries a full stop that is not one.
HELD_WORDS = 1
PROMPT_CHARS = 200
_WORD = re.compile(r"\s*\S+")
_CLAUSE_ENDS = ".?!,;:"


class Agreement:
    """Local agreement over the hypotheses of one turn: what two in a row begin with becomes stable.

    Hypotheses are about a window that loses its oldest sound now and then: ``commit`` takes the words of that
    sound out of the window. ``stable + unstable`` is the transcript so far, character by character.
    """

    def __init__(self) -> None:
        self._committed = ""
        self._agreed = ""
        self._last = ""
        self._sure = False

    @property
    def stable(self) -> str:
        """The text that never changes any more; it only grows."""
        return _join(self._committed, self._agreed)

    @property
    def unstable(self) -> str:
        """What follows the stable text in the newest hypothesis, with the space between them."""
        return self.text[len(self.stable) :]

    @property
    def text(self) -> str:
        """The whole transcript by the newest hypothesis."""
        return _join(self._committed, self._last)

    @property
    def window_text(self) -> str:
        """The newest hypothesis about the window."""
        return self._last

    @property
    def prompt(self) -> str:
        """The end of the text before the window."""
        return self._committed[-PROMPT_CHARS:]

    @property
    def prefix(self) -> str:
        """The stable text of the window: the next hypothesis begins with it."""
        return self._agreed

    def push(self, hypothesis: str, sure: bool = True) -> None:
        """Take the newest hypothesis about the window; one that contradicts the stable text is left aside.

        One that is not ``sure`` is shown, but makes nothing stable.
        """
        if not hypothesis.startswith(self._agreed):
            return
        before = self._last if self._sure and sure else self._agreed
        self._last, self._sure = hypothesis, sure
        known = len(self._agreed)
        old, new = _WORD.findall(before[known:]), _WORD.findall(hypothesis[known:])
        for one, other in zip(old[:-HELD_WORDS], new[:-HELD_WORDS], strict=False):
            if one != other:
                break
            self._agreed += other

    def commit(self, words: int) -> None:
        """The sound of the newest hypothesis' first words leaves the window: they stay as they are."""
        head = "".join(_WORD.findall(self._last)[:words])
        self._committed = _join(self._committed, head)
        self._agreed = self._agreed[len(head) :].lstrip()
        self._last = self._last[len(head) :].lstrip()


def words_to_commit(text: str, ends: tuple[int, ...], keep_from: int) -> int:
    """How many words of a window may leave it so that all sound from ``keep_from`` on stays.

    Whisper does best with a window that begins with a clause, so the cut comes after one where there is one.
    """
    past = [word for word, end in zip(text.split(), ends, strict=False) if end <= keep_from]
    clauses = [number for number, word in enumerate(past, 1) if word[-1] in _CLAUSE_ENDS]
    return clauses[-1] if clauses else len(past)


def _join(one: str, other: str) -> str:
    return f"{one} {other}" if one and other else one + other
