"""Batching: each step of a language model reads on for everybody who is ready, in one pass over its weights.

Reading the weights is what a step costs; a few more rows are nearly free. Sequences join and leave between any two
steps, and whoever has something to read does not wait for company: a step takes who is there when it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pipeline.backends.decoders import Decoder, Piece, forward_in_turn
from pipeline.worker import Worker

if TYPE_CHECKING:
    import torch

    Forward = Callable[[Sequence[Piece[Any]]], Sequence[torch.Tensor | Exception]]


class Limits(NamedTuple):
    """How many replies go on in one step, and how many tokens it reads of prompts.

    With more replies they take turns; and they wait for so much of a long prompt, not for all of it.
    """

    replies: int
    prompt_tokens: int


TOGETHER, IN_TURN = Limits(16, 32), Limits(1, 96)


class Reader(Protocol):
    """Somebody with tokens to be read; ``served``: the last step that read some."""

    served: int

    @property
    def due(self) -> int:
        """How many tokens it would have read in the next step; asked in the model's own thread."""

    @property
    def guessed(self) -> int:
        """How many of them are guesses, which need not be read."""

    @property
    def ready(self) -> bool:
        """Whether whoever waits for it has nothing to wait for; asked anywhere."""

    def piece(self, most: int) -> Piece[Decoder]:
        """The next of the tokens."""

    def take(self, piece: Piece[Decoder], logits: torch.Tensor) -> None:
        """The piece was read."""

    def fail(self, error: Exception) -> None:
        """Something went wrong with it; it is ready, and has nothing due any more."""


R = TypeVar("R", bound=Reader)


def shares(readers: Iterable[R], limits: Limits) -> list[tuple[R, int]]:
    """Who reads how many tokens in the next step; who had the least recent turn goes first.

    A token each for those who need no more, so that no reply waits for a prompt, and ``prompt_tokens`` in all for
    the others. Guesses are read where nobody else has anything to be read.
    """
    due = [(one, tokens) for one in sorted(readers, key=lambda one: one.served) if (tokens := one.due)]
    if len(due) > 1:
        due = [(one, tokens - one.guessed) for one, tokens in due]
    chosen = [(one, 1) for one, tokens in due if tokens == 1][: limits.replies]
    left = limits.prompt_tokens
    for one, tokens in due:
        if tokens > 1 and left:
            chosen.append((one, min(tokens, left)))
            left -= min(tokens, left)
    return chosen


class Steps:
    """The steps of one model, taken in its worker's thread whenever somebody waits for one."""

    def __init__(self, worker: Worker, forward: Forward, limits: Limits = TOGETHER) -> None:
        """``forward`` reads the pieces of a step and returns each one's logits, or its failure."""
        self._worker, self._forward = worker, forward
        self.limits = limits
        # Written on the event loop and copied in the worker's thread, each in one go of the interpreter.
        self._readers: dict[Reader, None] = {}
        self._taken = 0

    @contextmanager
    def joined(self, reader: Reader) -> Iterator[None]:
        """Every step takes the reader along."""
        self._readers[reader] = None
        try:
            yield
        finally:
            del self._readers[reader]

    async def advance(self, reader: Reader) -> None:
        """Take steps until a reader that has joined is ready."""
        while not reader.ready:
            await self._worker.run_unless(lambda: reader.ready, self.step)

    def step(self) -> None:
        """Read on for everybody who has joined; in the model's own thread."""
        self._taken += 1
        taking: list[tuple[Reader, Piece[Decoder]]] = []
        for reader, tokens in shares(list(self._readers), self.limits):
            reader.served = self._taken
            with _failing(reader):
                taking.append((reader, reader.piece(tokens)))
        results = self._read([piece for _, piece in taking])
        for (reader, piece), result in zip(taking, results, strict=True):
            with _failing(reader):
                if isinstance(result, Exception):
                    raise result
                reader.take(piece, result)

    def _read(self, pieces: list[Piece[Decoder]]) -> Sequence[torch.Tensor | Exception]:
        try:
            return self._forward(pieces)
        except Exception:  # noqa: BLE001 - whose fault it was shows when each is read alone
            return forward_in_turn(pieces)


@contextmanager
def _failing(reader: Reader) -> Iterator[None]:
    """What goes wrong here is this reader's failure alone."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - handed to whoever waits for the reader, whatever it is
        reader.fail(error)
