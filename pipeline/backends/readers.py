"""Readers: a prompt, or a prompt and the reply that follows from it, on their way through a model's steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pipeline.backends.cached_sequence import CachedSequence
from pipeline.backends.decoders import Decoder, Piece
from pipeline.backends.guesses import NO_GUESSES, Guesses
from pipeline.ports import StageError

if TYPE_CHECKING:
    import torch

# A reply goes on while its last tokens are being spoken, so that it is in step with the others; but not further.
LEAD_TOKENS = 2


class PromptReader:
    """Tokens that a sequence is to hold, of which it holds the beginning."""

    def __init__(self, sequence: CachedSequence, ids: list[int]) -> None:
        self.served = 0
        self.failure: StageError | None = None
        self._sequence = sequence
        self._ids = ids
        self._watches: dict[int, Callable[[torch.Tensor], None]] = {}
        self._done = not self._unread

    def watch(self, place: int, look: Callable[[torch.Tensor], None]) -> None:
        """Have the logits after the token at this place looked at, in the model's own thread."""
        self._watches[place] = look

    @property
    def due(self) -> int:
        """How many tokens are not read yet."""
        return 0 if self._done else self._unread

    @property
    def guessed(self) -> int:
        """How many of them need not be read."""
        return 0

    @property
    def ready(self) -> bool:
        """Whether all is read, or never will be."""
        return self._done

    def piece(self, most: int) -> Piece[Decoder]:
        """The next tokens."""
        return self._sequence.piece(self._ids, self._watches, most)

    def take(self, piece: Piece[Decoder], logits: torch.Tensor) -> None:
        """The piece was read."""
        before = len(self._sequence.ids)
        if not self._sequence.took(piece):
            return
        for place, row in zip(piece.wanted, logits, strict=True):
            self._look(before + place, row)
        self._settle()
        self._done = not self._unread

    def fail(self, error: Exception) -> None:
        """Give up, and empty the sequence."""
        self._sequence.reset()
        self.failure = StageError("language model", f"{type(error).__name__}: {error}")
        self.failure.__cause__ = error
        self._done = True

    def _look(self, place: int, logits: torch.Tensor) -> None:
        self._watches.pop(place)(logits)

    def _settle(self) -> None:
        """What was read is looked at."""

    @property
    def _unread(self) -> int:
        return len(self._ids) - len(self._sequence.ids)


class ReplyReader(PromptReader):
    """A prompt and the most likely reply to it, a little ahead of whoever takes its tokens from ``made``.

    After LEAD_TOKENS it waits to be taken from; right guesses may add to them.
    """

    def __init__(
        self,
        sequence: CachedSequence,
        ids: list[int],
        stop_ids: Collection[int],
        max_tokens: int,
        guesses: Guesses = NO_GUESSES,
    ) -> None:
        self._guess: list[int] = []  # what may follow the tokens that are certain
        super().__init__(sequence, list(ids))
        self.made: deque[int] = deque()
        self._stop_ids = stop_ids
        self._left = max_tokens
        self._prompt_end = len(ids) - 1
        self._guesses = guesses
        self._make_guess()

    @property
    def due(self) -> int:
        """How many tokens are not read yet; none while enough of the reply waits to be taken."""
        return 0 if len(self.made) >= LEAD_TOKENS else super().due

    @property
    def guessed(self) -> int:
        """How many of those that are due are guesses."""
        return len(self._guess)

    @property
    def ready(self) -> bool:
        """Whether there is a token to take, or will be none any more."""
        return bool(self.made) or super().ready

    def piece(self, most: int) -> Piece[Decoder]:
        """The next tokens, guesses after certain ones."""
        ids = [*self._ids, *self._guess]
        return self._sequence.piece(ids, [*self._watches, *range(self._prompt_end, len(ids))], most)

    def _look(self, place: int, logits: torch.Tensor) -> None:
        if place in self._watches:
            super()._look(place, logits)
        # What stands behind a wrong guess is void.
        if self._left and self._ids[place:] == [self._sequence.ids[place]]:
            self._choose(int(logits.argmax()))

    def _choose(self, token: int) -> None:
        self._guess = self._guess[1:] if self._guess[:1] == [token] else []
        if token in self._stop_ids:
            self._left, self._guess = 0, []
            return
        self._left -= 1
        self._ids.append(token)
        self.made.append(token)

    def _settle(self) -> None:
        """Wrong guesses go."""
        self._sequence.keep_prefix([*self._ids, *self._guess])
        if not self._guess:
            self._make_guess()

    def _make_guess(self) -> None:
        if self._left > 1:
            self._guess = self._guesses.after(self._ids, self._left - 1)

    @property
    def _unread(self) -> int:
        return super()._unread + len(self._guess)
