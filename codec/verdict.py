"""One codec judged on several sets of examples: the figures that go into its table, its file and its card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from codec.binding import BoundCodec
from codec.dialogues import Example
from codec.distill import Teacher
from codec.evaluate import Judge, Scores
from codec.fit import Frozen
from codec.inject import Injector
from codec.overhead import Overhead, measure_overhead
from codec.prompts import Prompts
from codec.ranking import Ranking, rank
from codec.train import Student
from codec.window import SegmentState, fuse


@dataclass
class Verdict:
    """Figures of one codec.

    ``recovery`` and ``ranking``: set -> condition -> (value, low, high), a 95 % bootstrap interval.
    """

    slots: int
    code_dims: int
    recovery: dict[str, dict[str, tuple[float, float, float]]] = field(default_factory=dict)
    by_age: dict[str, dict[int, float]] = field(default_factory=dict)
    ranking: dict[str, dict[str, tuple[float, float, float]]] = field(default_factory=dict)
    ranked: dict[str, int] = field(default_factory=dict)  # how many examples
    examples: dict[str, int] = field(default_factory=dict)
    bytes: float = 0.0
    zeros: float = 0.0
    overhead: Overhead | None = None

    def add(self, name: str, scores: Scores) -> None:
        """Take the figures of a set of examples."""
        conditions = [condition for condition in scores.losses if condition not in ("none", "full text")]
        self.recovery[name] = {
            condition: (scores.recovery(condition), *scores.interval(condition)) for condition in conditions
        }
        texts = [condition for condition in conditions if condition.startswith("text, last")]
        self.recovery[name] |= {f"state less {text}": scores.ahead("state", text) for text in texts}
        self.by_age[name] = scores.by_age("state")
        self.examples[name] = len(scores.losses["none"])
        self.bytes, self.zeros = scores.bytes, scores.zeros
        if (answers := scores.of_answers()) is not None:
            self.add(f"{name}, answers", answers)

    def rank(self, name: str, ranking: Ranking | None) -> None:
        """Take how the values of a set of examples were ranked, if it has any."""
        if ranking is not None:
            self.ranking[name], self.ranked[name] = ranking.figures(), len(ranking.first["none"])

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON has them, rounded to what they are worth."""
        figures: dict[str, Any] = _rounded(asdict(self))
        return figures


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {str(key): _rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return value


@dataclass(frozen=True, slots=True)
class Questions:
    """What to find out. ``quick`` leaves out the text controls, the ranking and the overhead.

    ``slots`` and ``keep``: judge with other sizes than the codec was trained with.
    """

    decay: float = 0.7
    slots: int | None = None
    keep: float | None = None
    quick: bool = False


def judge(
    frozen: Frozen,
    bound: BoundCodec,
    sets: Mapping[str, Sequence[Example]],
    asked: Mapping[str, Sequence[Example]],
    questions: Questions,
    report: Callable[[str], None] = lambda step: None,
) -> Verdict:
    """Judge a codec on named sets of examples, and by how it ranks the values of those ``asked``."""
    codec = bound.codec.resized(questions.slots, questions.keep).to(frozen.model.device)
    injector, prompts = Injector(frozen.model, codec, bound.sink_id), Prompts(frozen.tokenizer)
    verdict = Verdict(codec.config.slots, codec.config.code_dims)
    teacher = Teacher(injector, prompts)
    judging = Judge(Student(injector), teacher, prompts)
    try:
        for name, examples in sets.items():
            report(f"{name}: states and controls")
            prepared = teacher.prepare(examples)
            usable = [one for one, lesson in zip(examples, prepared, strict=True) if lesson]
            scores = judging.score(usable, [lesson for lesson in prepared if lesson], questions.decay)
            if not questions.quick:
                report(f"{name}: text controls")
                judging.score_texts(usable, scores)
            verdict.add(name, scores)
        for name, examples in asked.items():
            report(f"{name}: ranking")
            prepared = teacher.prepare(examples)
            usable = [one for one, lesson in zip(examples, prepared, strict=True) if lesson]
            states = [judging.states(lesson) for lesson in prepared if lesson]
            verdict.rank(name, rank(Student(injector), prompts, usable, states, questions.decay))
        if not questions.quick:
            report("overhead")
            verdict.overhead = measure_overhead(injector, _full_window(codec.config), _prompt(prompts))
    finally:
        injector.detach()
    return verdict


def _full_window(config: Any) -> Any:
    draw = torch.Generator().manual_seed(0)
    slots = torch.randn(config.slots, config.code_dims, generator=draw)
    return fuse((SegmentState.of(slots, config.slots),) * config.window, 0.7)


def _prompt(prompts: Prompts) -> list[int]:
    return prompts.prefix("You are a friendly voice assistant. Answer in one or two short spoken sentences.")
