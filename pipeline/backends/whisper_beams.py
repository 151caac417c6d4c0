"""Beam search: a second look at doubtful words, several ways to go on read side by side.

A token of three texts costs little more than of one: what takes time is reading the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.backends.kernels import Floats
from pipeline.backends.whisper_passes import Passes, Question, Written

# A token a hundred times less likely than another is no way to go on.
LEAST_SHARE = float(np.log(0.01))


@dataclass(frozen=True, slots=True)
class _Line:
    """A text, the sum of its log-probabilities, and which of the lines before it goes on from."""

    ids: list[int]
    total: float
    parent: int = 0

    @property
    def mean(self) -> float:
        return self.total / max(1, len(self.ids))


def search(
    passes: Passes, predict: Callable[[Floats, list[int]], Floats], question: Question, beams: int
) -> list[Written]:
    """The texts that the ``beams`` best lines lead to; ``predict``: the logits after tokens behind a text."""
    lines, ended = [_Line(question.text, 0.0)], list[_Line]()
    x = passes.read(question.start)[-1:]
    while True:
        ways = sorted(_ways(lines, predict(x, lines[0].ids)), key=lambda way: way.total, reverse=True)
        eot = question.tokenizer.eot
        ended += [_Line(way.ids[:-1], way.total) for way in ways[:beams] if way.ids[-1] == eot]
        lines = [way for way in ways if way.ids[-1] != eot][:beams]
        if _done(lines, ended, question, beams):
            break
        passes.branch([line.parent for line in lines])
        x = passes.read(*([line.ids[-1]] for line in lines))
    return [Written(text.ids, text.mean) for text in ended or lines[:1]]


def _ways(lines: list[_Line], logits: Floats) -> list[_Line]:
    """The lines, each with every likely token behind it."""
    ways = []
    for number, (line, row) in enumerate(zip(lines, logits, strict=True)):
        row = row - row.max()
        likely = np.flatnonzero(row > LEAST_SHARE)
        logprobs = row[likely] - np.log(np.exp(row).sum())
        ways += [
            _Line([*line.ids, int(token)], line.total + float(logprob), number)
            for token, logprob in zip(likely, logprobs, strict=True)
        ]
    return ways


def _done(lines: list[_Line], ended: list[_Line], question: Question, beams: int) -> bool:
    """Whether no line is worth going on with: as a rule the longer, the less likely."""
    if not lines or len(lines[0].ids) >= question.limit or question.over.is_set():
        return True
    return len(ended) >= beams or any(text.mean >= lines[0].mean for text in ended)
