"""What Whisper's decoder is asked, and its passes over the tokens of a text, or of several side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event

import numpy as np
from faster_whisper.tokenizer import Tokenizer

from pipeline.backends.kernels import Floats
from pipeline.backends.whisper_hearing import Heard
from pipeline.backends.whisper_kernels import Memory, Weights, read


@dataclass(frozen=True, slots=True)
class Question:
    """What the decoder begins with, and the most tokens it may write (those already known included).

    ``known``: how many of the start's tokens are text already. ``guess``: the tokens that may follow it. ``over``:
    set once nobody waits for the text any more; it then ends wherever it is.
    """

    tokenizer: Tokenizer
    start: list[int]
    known: int
    limit: int
    guess: list[int] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    @property
    def text(self) -> list[int]:
        """The start's tokens that are text."""
        return self.start[len(self.start) - self.known :]


@dataclass(frozen=True, slots=True)
class Written:
    """The text's tokens, and the mean log-probability with known ones as certain."""

    ids: list[int]
    logprob: float


class Passes:
    """The decoder's passes over one stretch of sound, and the keys and values of what was read in them.

    Up to ``lines`` texts of one length are read side by side.
    """

    def __init__(self, weights: Weights, heard: Heard, capacity: int, lines: int = 1) -> None:
        layers, rows = weights.qkv.bias.shape
        shape = (lines, layers, weights.heads, capacity, rows // 3 // weights.heads)
        self._weights, self._heard = weights, heard
        self._written = Memory(np.empty(shape, np.float32), np.empty(shape, np.float32))
        self._capacity, self.length = capacity, 0

    @property
    def room(self) -> int:
        """How many more tokens can be read."""
        return self._capacity - self.length

    def read(self, *lines: list[int]) -> Floats:
        """Take each line's next tokens, as many of each, through all layers; returns them, ``[tokens, width]``."""
        x: Floats = read(np.array(lines), self.length, self._written, self._heard, self._weights)
        self.length += len(lines[0])
        return x

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self.length = length

    def branch(self, parents: list[int]) -> None:
        """Have the first lines go on from where these are, several perhaps from one."""
        for memory in self._written:
            held = memory[:, :, :, : self.length]
            held[: len(parents)] = held[parents]
