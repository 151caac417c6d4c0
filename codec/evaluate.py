"""How much of what the text tells does the state tell? Recovery, with its controls; ranking; overhead.

Recovery = (loss without context - loss with the state) / (loss without - loss with the full text), where the loss
is the summed negative log-likelihood of the replies. 1 is as good as the text, 0 is as good as nothing; a control
tells what is gained by "there was a context" alone. States take the way they take in use: int8, window, injection.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from codec.dialogues import Example, Turn
from codec.distill import Batch, Lesson, Teacher, collate
from codec.inject import Injection, Injector
from codec.packing import payload_bytes
from codec.prompts import Prompts
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

    def interval(self, name: str, seed: int = 0) -> tuple[float, float]:
        """The 95 % bootstrap interval of a recovery, over the examples."""
        draw, count = np.random.default_rng(seed), len(self.losses["none"])
        found = [self.recovery(name, draw.integers(0, count, count)) for _ in range(_RESAMPLES)]
        low, high = np.percentile(found, [2.5, 97.5])
        return float(low), float(high)

    def of_answers(self) -> Scores | None:
        """The same scores by the answers' tokens alone; None if there are no answers."""
        if not any(losses.any() for losses in self.answers.values()):
            return None
        return Scores(self.answers, {}, self.ages, self.bytes, self.zeros)

    def by_age(self, name: str) -> dict[int, float]:
        """Recovery by the age of the segment that holds the answer."""
        ages = np.array(self.ages)
        return {
            age: self.recovery(name, np.flatnonzero(ages == age)) for age in sorted(set(self.ages)) if age >= 0
        }


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
    def score(
        self, examples: Sequence[Example], lessons: Sequence[Lesson], decay: float, rows: int = 16
    ) -> Scores:
        """All conditions on examples and their lessons (one each)."""
        size = self._student.codec.config.window
        states = [self._states(lesson) for lesson in lessons]
        every = conditions(size, decay, _mean([segment for row in states for segment in row]))
        losses = {name: np.zeros((len(lessons), 2)) for name in ("none", "full text", *every)}
        for part in _same_prefix(lessons, rows):
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
            lessons = self._teacher.prepare(cut)
            losses = np.array([self._text_loss(lesson) for lesson in lessons])
            scores.losses[name], scores.answers[name] = losses.T

    def _text_loss(self, lesson: Lesson | None) -> tuple[float, float]:
        if lesson is None:
            raise ValueError("a shortened example runs across a seam that the whole one does not")
        losses = self._nll(lesson.taught, lesson.reply_ids)
        return float(losses.sum()), float(losses[slice(*lesson.answer)].sum())

    def _cut(self, example: Example, count: int) -> Example:
        """The example with only the last ``count`` tokens of its segments' words."""
        kept: list[Turn] = []
        for turn in reversed(example.segments):
            text, used = self._prompts.last_tokens(turn.text, count)
            if used:
                kept.insert(0, Turn(turn.role, text))
            count -= used
        return replace(example, segments=tuple(kept))

    def _states(self, lesson: Lesson) -> tuple[SegmentState, ...]:
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

    def rank(self, examples: Sequence[Example], decay: float) -> dict[str, float]:
        """How often the right value is the likeliest of five: with nothing, with the state, with the text."""
        asked = [example for example in examples if len(example.others) >= 4]
        candidates = [
            replace(example, reply=example.reply.replace(example.answer, value))
            for example in asked
            for value in (example.answer, *example.others[:4])
        ]
        lessons = self._teacher.prepare(candidates)
        whole = [at for at in range(0, len(lessons), 5) if all(lessons[at : at + 5])]
        chosen = [lesson for at in whole for lesson in lessons[at : at + 5] if lesson]
        scores = self.score([candidates[at + i] for at in whole for i in range(5)], chosen, decay)
        names = {"none": "none", "state": "state", "full text": "full text"}
        best = {name: scores.losses[key].reshape(-1, 5).argmin(1) for name, key in names.items()}
        return {name: float((found == 0).mean()) for name, found in best.items()} | {"examples": float(len(whole))}


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


def _same_prefix(lessons: Sequence[Lesson], rows: int) -> list[list[int]]:
    order = sorted(range(len(lessons)), key=lambda at: (lessons[at].prefix, len(lessons[at].ids)))
    parts: list[list[int]] = []
    for at in order:
        if parts and len(parts[-1]) < rows and lessons[parts[-1][0]].prefix == lessons[at].prefix:
            parts[-1].append(at)
        else:
            parts.append([at])
    return parts


@dataclass(frozen=True)
class Overhead:
    """Cost of a state in use. Shares are of the same loop without a state, in the same run."""

    step_ms: float
    extra_step_share: float
    extra_flops_share: float
    encode_ms: float
    prepare_ms: float


@torch.no_grad()
def measure_overhead(injector: Injector, state: FusedState, prompt: Sequence[int], tokens: int = 48) -> Overhead:
    """Decode with the state and without, token by token in turn, so that both see the same machine."""
    begun = time.perf_counter()
    injection = injector.prepare([state])
    prepare_s = time.perf_counter() - begun
    streams = [_Stream(injector, prompt, None), _Stream(injector, prompt, injection)]
    times = np.array([[stream.step() for stream in streams] for _ in range(tokens)])[2:]
    hidden = torch.randn(1, 12, injector.codec.config.d_model)
    begun = time.perf_counter()
    injector.codec.encoder(hidden, torch.ones(1, 12))
    encode_s = time.perf_counter() - begun
    plain = float(np.median(times[:, 0]))
    extra = float(np.median(times[:, 1] - times[:, 0])) / plain
    return Overhead(plain * 1e3, extra, _extra_flops(injector), encode_s * 1e3, prepare_s * 1e3)


class _Stream:
    """A greedy reply, a token a step."""

    def __init__(self, injector: Injector, prompt: Sequence[int], injection: Injection | None) -> None:
        self._injector, self._injection, self._cache = injector, injection, DynamicCache()
        self._next = torch.tensor([list(prompt)], device=injector.model.device)
        self.step()

    def step(self) -> float:
        begun = time.perf_counter()
        with self._injector.active(self._injection):
            final = self._injector.read(self._cache, input_ids=self._next)
        logits = self._injector.model.get_output_embeddings()(final[:, -1:])
        self._next = logits.argmax(-1)
        return time.perf_counter() - begun


def _extra_flops(injector: Injector) -> float:
    """Share of a decoding step: scores and sums over a full window's slots, against the weights' products."""
    config, model_config = injector.codec.config, injector.model.config
    upper = model_config.num_hidden_layers - config.layer
    width = model_config.num_attention_heads * (
        getattr(model_config, "head_dim", None) or model_config.hidden_size // model_config.num_attention_heads
    )
    slots = 4 * width * config.window_slots * upper
    weights: Any = sum(p.numel() for name, p in injector.model.named_parameters() if p.dim() > 1)
    return float(slots / (2 * weights))
