"""How much of what the text tells does the state tell? Recovery, with its controls.

Recovery = (loss without context - loss with the state) / (loss without - loss with the full text), where the loss
is the summed negative log-likelihood of the replies. 1 is as good as the text, 0 is as good as nothing; a control
tells what is gained by "there was a context" alone. States take the way they take in use: int8, window, injection.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from codec.dialogues import Example, Turn
from codec.distill import Batch, Lesson, Teacher, collate
from codec.packing import payload_bytes
from codec.prompts import Exchange, Prompts
from codec.train import Student
from codec.window import FusedState, SegmentState, fuse

Losses = NDArray[np.float64]
_TEXT_TOKENS = (4, 8, 16)
_DECAYS = (0.5, 0.7, 0.85, 1.0)
_RESAMPLES = 1_000


@dataclass
class Scores:
    """Summed loss of every example's reply under every condition; "none" and "full text" are always there.

    A reply's words tell in part only that something was said before; the tokens of the answer tell what.
    """

    losses: dict[str, Losses] = field(default_factory=dict)
    answers: dict[str, Losses] = field(default_factory=dict)  # the same, of the answers' own tokens
    ages: list[int] = field(default_factory=list)  # of the segment with the answer, 0 the newest; -1 unknown
    bytes: float = 0.0  # of a full window, on average
    zeros: float = 0.0  # share of the numbers in the slots that are exactly zero

    def recovery(self, name: str, rows: NDArray[np.intp] | slice = slice(None)) -> float:
        """Recovery under a condition, over some of the examples."""
        none, full = self.losses["none"][rows].sum(), self.losses["full text"][rows].sum()
        return float((none - self.losses[name][rows].sum()) / (none - full))

    def interval(self, name: str) -> tuple[float, float]:
        """The 95 % bootstrap interval of a recovery, over the examples."""
        return bootstrap(lambda rows: self.recovery(name, rows), len(self.losses["none"]))

    def ahead(self, name: str, other: str) -> tuple[float, float, float]:
        """How far one recovery is above another on the same replies, and its paired 95 % bootstrap interval."""

        def by(rows: NDArray[np.intp] | slice) -> float:
            return self.recovery(name, rows) - self.recovery(other, rows)

        return by(slice(None)), *bootstrap(by, len(self.losses["none"]))

    def of_answers(self) -> Scores | None:
        """The same scores by the answers' tokens alone, of the examples that have any; None if none has."""
        held = np.flatnonzero(self.answers["none"]) if self.answers else np.array([], int)
        if not len(held):
            return None
        losses = {name: found[held] for name, found in self.answers.items()}
        return Scores(losses, {}, [self.ages[at] for at in held], self.bytes, self.zeros)

    def by_age(self, name: str) -> dict[int, float]:
        """Recovery by the age of the segment that holds the answer."""
        ages = np.array(self.ages)
        return {
            age: self.recovery(name, np.flatnonzero(ages == age)) for age in sorted(set(self.ages)) if age >= 0
        }


def bootstrap(figure: Callable[[NDArray[np.intp]], float], count: int, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of a figure that is computed from some of ``count`` examples."""
    draw = np.random.default_rng(seed)
    low, high = np.percentile([figure(draw.integers(0, count, count)) for _ in range(_RESAMPLES)], [2.5, 97.5])
    return float(low), float(high)


Condition = Callable[[tuple[SegmentState, ...], tuple[SegmentState, ...]], FusedState]


def conditions(size: int, decay: float, mean: SegmentState) -> dict[str, Condition]:
    """What each condition injects, from a row's segments and those of another row."""

    def last(count: int) -> Condition:
        return lambda own, other: fuse(own[-count:], decay)

    def faded(by: float) -> Condition:
        return lambda own, other: fuse(own, by)

    named: dict[str, Condition] = {
        "state": faded(decay),
        "wrong state": lambda own, other: fuse(other, decay),
        "mean state": lambda own, other: fuse((mean,) * len(own), decay),
    }
    named |= {f"state, last {count}": last(count) for count in range(1, size)}
    return named | {f"state, decay {by}": faded(by) for by in _DECAYS if by != decay}


class Judge:
    """Scores a student; ``teacher`` answers what text would have told."""

    def __init__(self, student: Student, teacher: Teacher, prompts: Prompts) -> None:
        self._student, self._teacher, self._prompts = student, teacher, prompts

    @torch.no_grad()
    def score(self, examples: Sequence[Example], lessons: Sequence[Lesson], decay: float) -> Scores:
        """All conditions on examples and their lessons (one each)."""
        size = self._student.codec.config.window
        states = [self.states(lesson) for lesson in lessons]
        every = conditions(size, decay, _mean([segment for row in states for segment in row]))
        losses = {name: np.zeros((len(lessons), 2)) for name in ("none", "full text", *every)}
        for part in _same_prefix(lessons):
            batch = collate([lessons[at] for at in part], size, self._student.injector.model.device)
            losses["none"][part] = self._loss(batch, batch.untaught)
            losses["full text"][part] = self._loss(batch, batch.taught)
            for name, condition in every.items():
                fused = [condition(states[at], states[at - 1]) for at in part]
                final = self._student.reply(batch, self._student.injector.prepare(fused))
                losses[name][part] = self._loss(batch, final)
        held = [segment for row in states for segment in row]
        full = [payload_bytes(row) for row in states if len(row) == size]
        return Scores(
            {name: found[:, 0] for name, found in losses.items()},
            {name: found[:, 1] for name, found in losses.items()},
            [answer_age(example) for example in examples],
            statistics.fmean(full) if full else 0.0,
            float(torch.cat([segment.values.flatten() for segment in held]).eq(0).float().mean()),
        )

    @torch.no_grad()
    def score_texts(self, examples: Sequence[Example], scores: Scores) -> None:
        """Add what re-feeding the last tokens, or the last segment, as text would have recovered."""
        texts = {
            f"text, last {count} tokens": [self._cut(one, count) for one in examples] for count in _TEXT_TOKENS
        }
        texts["text, last segment"] = [replace(one, segments=one.segments[-1:]) for one in examples]
        for name, cut in texts.items():
            losses = np.array([self._text_loss(told) for told in self._teacher.told(cut)])
            scores.losses[name], scores.answers[name] = losses.T

    def _text_loss(self, told: tuple[Tensor, Exchange] | None) -> tuple[float, float]:
        if told is None:
            raise ValueError("a shortened example runs across a seam that the whole one does not")
        final, exchange = told
        losses = self._nll(final, torch.tensor(exchange.tail[exchange.reply_at :]))
        return float(losses.sum()), float(losses[slice(*exchange.answer)].sum())

    def _cut(self, example: Example, count: int) -> Example:
        """The example with only the last ``count`` tokens of its segments' words."""
        kept: list[Turn] = []
        for turn in reversed(example.segments):
            text, used = self._prompts.last_tokens(turn.text, count)
            if used:
                kept.insert(0, Turn(turn.role, text))
            count -= used
        return replace(example, segments=tuple(kept))

    def states(self, lesson: Lesson) -> tuple[SegmentState, ...]:
        """The segments of a lesson as they are kept."""
        encoder = self._student.codec.encoder
        found = []
        for hidden in lesson.segments:
            hidden = hidden.to(encoder.center.device)
            slots, filled = encoder(hidden[None], torch.ones(1, len(hidden), device=hidden.device))
            found.append(SegmentState.of(slots[0][filled[0]], len(hidden)))
        return tuple(found)

    def _loss(self, batch: Batch, final: Tensor) -> Losses:
        """Summed loss [B, 2] of each row's reply, and of the answer in it."""
        losses = self._nll(final, batch.ids)
        both = torch.stack([losses, losses * batch.in_answer], 1)
        summed = torch.zeros(batch.rows, 2, device=final.device).index_add(0, batch.position[:, 0], both)
        return summed.cpu().double().numpy()

    def _nll(self, final: Tensor, ids: Tensor) -> Tensor:
        final = final.to(self._student.injector.model.device)
        logs = self._student.logits(final).log_softmax(-1)
        return -logs.gather(-1, ids.to(logs.device)[:, None])[:, 0]


def answer_age(example: Example) -> int:
    """How many segments ago the answer was last said; -1 where there is no answer."""
    for age, turn in enumerate(reversed(example.segments)):
        if example.answer and example.answer in turn.text:
            return age
    return -1


def _mean(segments: Sequence[SegmentState]) -> SegmentState:
    """The average state: of the slots that stand at the same place from the end."""
    longest = max(len(segment.values) for segment in segments)
    total, count = torch.zeros(longest, segments[0].values.shape[1]), torch.zeros(longest, 1)
    for segment in segments:
        total[longest - len(segment.values) :] += segment.slots
        count[longest - len(segment.values) :] += 1
    return SegmentState.of(total / count, 0)


def _same_prefix(lessons: Sequence[Lesson], rows: int = 16) -> list[list[int]]:
    order = sorted(range(len(lessons)), key=lambda at: (lessons[at].prefix, len(lessons[at].ids)))
    parts: list[list[int]] = []
    for at in order:
        if parts and len(parts[-1]) < rows and lessons[parts[-1][0]].prefix == lessons[at].prefix:
            parts[-1].append(at)
        else:
            parts.append([at])
    return parts
