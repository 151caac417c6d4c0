"""Trains a codec by distillation: with the state, the frozen model shall reply as it does with the text.

Only the codec learns. The loss is the KL divergence from the model that reads the segments' full text to the model
that reads their state, over the tokens of the reply, of which those of the answer weigh more. In a share of the
batches the state is another dialogue's and the model without any context is the teacher, so that an irrelevant
state does no harm.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from codec.distill import Batch, Lesson, PrefixCaches, collate, shuffled_batches
from codec.inject import Injection, Injector
from codec.model import CodecError

_HEAD_ROWS = 256  # at once: a few rows would cost the head as much
SAVED_EVERY = 50  # steps: a minute or two of work that an interruption may cost


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train.

    ``steps``: at most so many; ``decays``: what weights segments get, drawn anew every batch; ``answer_weight``:
    how many other tokens of a reply one of its answer counts as; ``start``: the fingerprint of the codec that is
    trained further, "" for a new one.
    """

    epochs: int = 3
    steps: int | None = None
    batch: int = 16
    rate: float = 2e-3
    warmup: int = 15
    wrong_share: float = 0.15
    decays: tuple[float, ...] = (0.7, 0.7, 0.7, 1.0)
    answer_weight: float = 3.0
    seed: int = 0
    start: str = ""


class Student:
    """The frozen model with a codec, asked for replies in batches."""

    def __init__(self, injector: Injector) -> None:
        self.injector, self.codec = injector, injector.codec
        self._caches = PrefixCaches(injector)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The slots [B, size * k, c] of a batch, oldest first, and which hold something [B, size * k]."""
        slots, filled = self.codec.encoder(batch.segments, batch.segment_mask)
        return slots.view(batch.rows, -1, slots.shape[-1]), filled.view(batch.rows, -1)

    def weigh(self, filled: Tensor, decay: float) -> Tensor:
        """Log-weights [B, size * k] of the slots: ``decay ** age``, nothing where there is nothing."""
        config = self.codec.config
        ages = torch.arange(filled.shape[1], device=filled.device).flip(0) // config.slots
        return (ages * math.log(decay)).expand(len(filled), -1).masked_fill(~filled, -torch.inf)

    def reply(self, batch: Batch, injection: Injection | None) -> Tensor:
        """The final states [R, d] from which the model predicts the tokens of the replies."""
        rows, width = batch.tail_mask.shape
        cache = self._caches.open(batch.prefix, rows)
        seen = torch.cat([batch.tail_mask.new_ones(rows, len(batch.prefix)), batch.tail_mask], 1)
        positions = torch.arange(len(batch.prefix), len(batch.prefix) + width, device=seen.device)[None]
        with self.injector.resuming(batch.tail, injection):
            final = self.injector.read(
                cache, inputs_embeds=batch.tail, attention_mask=seen, position_ids=positions
            )
        predicting: Tensor = final[batch.position[:, 0], batch.position[:, 1]]
        return predicting

    def logits(self, final: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Next-token logits [R, vocabulary], float32, of final states [R, d]; for some tokens only, if given."""
        head = self.injector.model.get_output_embeddings()
        if vocabulary is None:
            logits = head(final).float()
        else:
            logits = functional.linear(final, head.weight[vocabulary]).float()
        cap = getattr(self.injector.model.config, "final_logit_softcapping", None)
        capped: Tensor = logits if cap is None else torch.tanh(logits / cap) * cap
        return capped

    @torch.no_grad()
    def vocabulary(self, lessons: Sequence[Lesson], likeliest: int = 8) -> Tensor:
        """The tokens that matter in these lessons: those in them and the teacher's likeliest at every place."""
        found, device = [torch.cat([lesson.ids for lesson in lessons])], self.injector.model.device
        states = torch.cat([states for lesson in lessons for states in (lesson.taught, lesson.untaught)])
        for at in range(0, len(states), _HEAD_ROWS):
            logits = self.logits(states[at : at + _HEAD_ROWS].to(device))
            found.append(logits.topk(likeliest, -1).indices.flatten().cpu())
        return torch.tensor(sorted(set(torch.cat(found).tolist())), device=device)


def divergence(student: Student, batch: Batch, vocabulary: Tensor, decay: float, wrong: bool) -> Tensor:
    """KL [R] from teacher to student over ``vocabulary``. ``wrong``: each row has another row's state."""
    slots, filled = student.encode(batch)
    if wrong:
        slots, filled = slots.roll(1, 0), filled.roll(1, 0)
    injection = student.injector.inject(slots, student.weigh(filled, decay))
    replied = student.logits(student.reply(batch, injection), vocabulary).log_softmax(-1)
    with torch.no_grad():
        taught = student.logits(batch.untaught if wrong else batch.taught, vocabulary).log_softmax(-1)
    return functional.kl_div(replied, taught, log_target=True, reduction="none").sum(-1)


def distillation_loss(divergence: Tensor, in_answer: Tensor, answer_weight: float) -> Tensor:
    """The mean of a divergence [R], in which the tokens of the answers weigh more than others."""
    weights = 1 + (answer_weight - 1) * in_answer
    return (divergence * weights).sum() / weights.sum()


class Trainer:
    """One training run: deterministic by its seed, and able to go on where it was stopped."""

    def __init__(
        self, student: Student, lessons: Sequence[Lesson], recipe: Recipe, checkpoint: Path | None
    ) -> None:
        self._student, self._lessons, self._recipe, self._checkpoint = student, lessons, recipe, checkpoint
        plan = (
            rows
            for epoch in range(recipe.epochs)
            for rows in shuffled_batches(lessons, recipe.batch, random.Random(f"{recipe.seed}/{epoch}"))
        )
        self._plan = list(itertools.islice(plan, recipe.steps))
        self._vocabulary = student.vocabulary(lessons)
        self._optimiser = torch.optim.AdamW(student.codec.parameters(), lr=recipe.rate, weight_decay=0.0)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimiser, self._rate)
        self._step = 0

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return len(self._plan)

    def _rate(self, step: int) -> float:
        warm = min(1.0, (step + 1) / self._recipe.warmup)
        return warm * 0.5 * (1 + math.cos(math.pi * min(1.0, step / max(1, len(self._plan)))))

    def run(self, on_step: Callable[[int, float], None] = lambda step, loss: None) -> None:
        """Train to the end of the plan, from the checkpoint if there is one."""
        self._resume()
        self._student.codec.train().requires_grad_(True)
        self._student.injector.model.requires_grad_(False)
        while self._step < len(self._plan):
            loss = self._learn(self._plan[self._step])
            self._step += 1
            on_step(self._step, loss)
            if self._checkpoint is not None and self._step % SAVED_EVERY == 0:
                self._save(self._checkpoint)
        self._student.codec.eval().requires_grad_(False)

    def _learn(self, rows: list[int]) -> float:
        rng = random.Random(f"{self._recipe.seed}/step {self._step}")
        device = self._student.injector.model.device
        batch = collate([self._lessons[row] for row in rows], self._student.codec.config.window, device)
        wrong = len(rows) > 1 and rng.random() < self._recipe.wrong_share
        found = divergence(self._student, batch, self._vocabulary, rng.choice(self._recipe.decays), wrong)
        loss = distillation_loss(found, batch.in_answer, self._recipe.answer_weight)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._student.codec.parameters(), 1.0)
        self._optimiser.step()
        self._schedule.step()
        return float(loss.detach())

    def _identity(self) -> dict[str, Any]:
        config = asdict(self._student.codec.config)
        return {"recipe": asdict(self._recipe), "config": config, "lessons": len(self._lessons)}

    def _save(self, path: Path) -> None:
        state = {
            "identity": self._identity(),
            "step": self._step,
            "codec": self._student.codec.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "schedule": self._schedule.state_dict(),
        }
        torch.save(state, path.with_suffix(".new"))
        os.replace(path.with_suffix(".new"), path)  # a run stopped while saving leaves the checkpoint before

    def _resume(self) -> None:
        if self._checkpoint is None or not self._checkpoint.exists():
            return
        state = torch.load(self._checkpoint, weights_only=True)
        if state["identity"] != self._identity():
            raise CodecError(
                f"{self._checkpoint} is of another run ({state['identity']}, this is {self._identity()}):"
                " remove it, or give this run another place"
            )
        self._step = state["step"]
        self._student.codec.load_state_dict(state["codec"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._schedule.load_state_dict(state["schedule"])
