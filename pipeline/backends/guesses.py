"""Guesses: how a model's replies tend to go on, by their last few tokens.

A small model says much the same again and again. A step that reads its next token and a few guessed ones costs
little more than one that reads the token alone, and makes as many more as were guessed right. This is speculative
decoding (Leviathan et al. 2023) with n-grams of the model's own replies as the draft model. A guess that is wrong
costs its row and changes nothing: what is said is still what the model would have said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from pipeline.ports import InputError

# Tokens that a guess goes by: as many as possible, and fewer where these were never seen.
MOST_CONTEXT, LEAST_CONTEXT = 3, 2
# A guess must have been right so often, and in this share of the cases, where it was counted.
LEAST_COUNT, LEAST_SHARE = 2, 0.4
# What n-grams shorter than the longest are filled up with; no token.
NOTHING = -1
GUESSES = Path(__file__).parent / "guesses"


class Guesses:
    """What follows which tokens; ``following`` maps the last ones to the next.

    ``at_once``: how many guesses are worth making; a row more must cost a step next to nothing.
    """

    def __init__(self, following: Mapping[tuple[int, ...], int], at_once: int) -> None:
        self._following = dict(following)
        self._at_once = at_once

    @classmethod
    def counted(cls, replies: Iterable[Sequence[int]], at_once: int) -> Self:
        """The n-grams of replies, each with the end of its prompt in front."""
        seen: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for ids in replies:
            for end in range(LEAST_CONTEXT, len(ids)):
                for length in range(LEAST_CONTEXT, min(MOST_CONTEXT, end) + 1):
                    seen[tuple(ids[end - length : end])][ids[end]] += 1
        best = {context: (*after.most_common(1)[0], after.total()) for context, after in seen.items()}
        return cls(
            {
                context: token
                for context, (token, count, total) in sorted(best.items())
                if count >= LEAST_COUNT and count >= LEAST_SHARE * total
            },
            at_once,
        )

    @classmethod
    def for_model(cls, name: str, at_once: int) -> Self:
        """Those that come with Echoic for a model of this name; none for another."""
        path = GUESSES / f"{name}.npz"
        return cls.of(path, at_once) if path.exists() else cls({}, 0)

    @classmethod
    def of(cls, path: Path, at_once: int) -> Self:
        """Read a file that ``write`` made. Raises InputError where it cannot be read."""
        try:
            with np.load(path) as file:
                contexts, following = file["contexts"].tolist(), file["following"].tolist()
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"guesses {path}: {error}") from error
        keys = (tuple(one for one in context if one != NOTHING) for context in contexts)
        return cls(dict(zip(keys, following, strict=True)), at_once)

    def write(self, path: Path) -> None:
        """Keep them in a file: int32 ``contexts [n, 3]``, short ones filled up in front, and ``following [n]``."""
        contexts = [(NOTHING,) * (MOST_CONTEXT - len(key)) + key for key in self._following]
        following = np.array(list(self._following.values()), np.int32)
        np.savez_compressed(path, contexts=np.array(contexts, np.int32), following=following)

    def __len__(self) -> int:
        return len(self._following)

    def after(self, ids: Sequence[int], most: int) -> list[int]:
        """At most so many tokens that may follow; fewer, or none, where nothing speaks for any."""
        context, guessed = list(ids[-MOST_CONTEXT:]), list[int]()
        while len(guessed) < min(most, self._at_once):
            lengths = range(min(MOST_CONTEXT, len(context)), LEAST_CONTEXT - 1, -1)
            known = (self._following.get(tuple(context[-length:])) for length in lengths)
            token = next((one for one in known if one is not None), None)
            if token is None:
                break
            context.append(token)
            guessed.append(token)
        return guessed


NO_GUESSES = Guesses({}, 0)
