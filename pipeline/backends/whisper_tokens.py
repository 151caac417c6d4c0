"""Whisper's tokens: where the words they make end, and a tokenizer that makes those the model was trained on."""

from __future__ import annotations

from typing import Any


def word_ends(pieces: list[str], starts: list[int]) -> tuple[int, ...]:
    """Where each word is over, from its tokens' texts and the sample at which each token, and the end, begins.

    A word's punctuation is found in the pause that follows it, so the place is the middle of its time.
    """
    ends = []
    quiet_from: int | None = None
    for number, (piece, start) in enumerate(zip([*pieces, " "], starts, strict=True)):
        if number and piece.startswith(" "):
            ends.append((start + (start if quiet_from is None else quiet_from)) // 2)
            quiet_from = None
        elif quiet_from is None and not any(character.isalnum() for character in piece):
            quiet_from = start
    return tuple(ends)


def with_first_merge(tokenizer: Any) -> Any:
    """The tokenizer with its first merge, which several converted Whisper models have lost.

    Without it " the" is encoded as two tokens that the model never wrote there, and what it is told it wrote
    before confuses it.
    """
    before, opening, merges = tokenizer.to_str().partition('"merges":[')
    first = '["Ġ","t"]' if merges.startswith("[") else '"Ġ t"'
    if first in merges or tokenizer.token_to_id("Ġt") is None:
        return tokenizer
    return type(tokenizer).from_str(f"{before}{opening}{first},{merges}")
