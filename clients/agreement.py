"""Whether answering ahead of time changes what is answered: with greedy sampling, it must not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clients.summary import Outcome


@dataclass(frozen=True, slots=True)
class Agreement:
    """Recordings that were answered, by how their replies with drafts compare with those without.

    Two runs may hear a recording differently, as recognition is timed by the clock; what is answered to
    different words is not compared.
    """

    identical: tuple[str, ...]
    different: tuple[str, ...]
    heard_differently: tuple[str, ...]

    def __str__(self) -> str:
        told = f"replies with and without drafts: {len(self.identical)} identical, {len(self.different)} different"
        if self.different:
            told += f" ({', '.join(self.different)})"
        return f"{told}, {len(self.heard_differently)} recordings heard differently"


def compare_replies(with_drafts: Sequence[Outcome], without: Sequence[Outcome]) -> Agreement:
    """Compare two variants over the same recordings."""
    identical, different, heard_differently = [], [], []
    for ahead, cold in zip(with_drafts, without, strict=True):
        ours, theirs = _completed(ahead), _completed(cold)
        if not ours and not theirs:
            continue
        if [heard for heard, _ in ours] != [heard for heard, _ in theirs]:
            heard_differently.append(ahead.recording.name)
        elif ours == theirs:
            identical.append(ahead.recording.name)
        else:
            different.append(ahead.recording.name)
    return Agreement(tuple(identical), tuple(different), tuple(heard_differently))


def _completed(outcome: Outcome) -> list[tuple[str, str]]:
    """What was heard and how it was answered; how much of an interrupted reply was made is a matter of moments."""
    return [(turn.heard, turn.reply) for turn in outcome.result.turns if turn.status == "completed"]
