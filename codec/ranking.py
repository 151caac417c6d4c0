"""Exact recall: is the right name, number or time the likeliest of five, with nothing, the state, or the text?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from codec.dialogues import Example
from codec.evaluate import bootstrap
from codec.inject import Injection
from codec.prefix import filled_cache, keys_values
from codec.prompts import Exchange, Prompts
from codec.train import Student
from codec.window import FusedState, SegmentState, fuse

_CHOICES = 5


@dataclass(frozen=True)
class Ranking:
    """Whether the right value is the likeliest of five, example by example, under every condition."""

    first: dict[str, NDArray[np.bool_]]

    def share(self, name: str, rows: NDArray[np.intp] | slice = slice(None)) -> float:
        """How often it is, over some of the examples."""
        return float(self.first[name][rows].mean())

    def gained(self, name: str, rows: NDArray[np.intp] | slice = slice(None)) -> float:
        """Which part of what the full text gains upon nothing; 0 where it gains nothing."""
        none, full = self.share("none", rows), self.share("full text", rows)
        return (self.share(name, rows) - none) / (full - none) if full > none else 0.0

    def figures(self) -> dict[str, tuple[float, float, float]]:
        """Every share, and what the state gains of the text's gain, with 95 % bootstrap intervals."""
        count = len(self.first["none"])
        found = {name: (self.share(name), *bootstrap(partial(self.share, name), count)) for name in self.first}
        gained = self.gained("state"), *bootstrap(partial(self.gained, "state"), count)
        return found | {"gained by the state": gained}


@torch.no_grad()
def rank(
    student: Student,
    prompts: Prompts,
    examples: Sequence[Example],
    states: Sequence[tuple[SegmentState, ...]],
    decay: float,
) -> Ranking | None:
    """Which value is the likeliest in the reply to each example that has one; None if none has.

    ``states``: the segments of every example. The wrong state is that of the example before.
    """
    first: dict[str, list[bool]] = {}
    for at, example in enumerate(examples):
        choices = _choices(prompts, example)
        if len(choices) < _CHOICES:
            continue
        asked, told = choices[0].prefix + choices[0].tail[: choices[0].reply_at], choices[0].full.ids
        told = told[: len(told) - len(choices[0].tail) + choices[0].reply_at]
        replies = [choice.tail[choice.reply_at :] for choice in choices]
        own, other = fuse(states[at], decay), fuse(states[at - 1], decay)
        ways = {
            "none": (asked, None),
            "full text": (told, None),
            "state": (asked, own),
            "wrong state": (asked, other),
        }
        for name, (context, state) in ways.items():
            losses = reply_losses(student, context, replies, state)
            first.setdefault(name, []).append(int(losses.argmin()) == 0)
    return Ranking({name: np.array(found) for name, found in first.items()}) if first else None


def _choices(prompts: Prompts, example: Example) -> list[Exchange]:
    """The example with its own value and with four others; fewer where it has not so many."""
    values = (example.answer, *example.others[: _CHOICES - 1])
    changed = (replace(example, reply=example.reply.replace(example.answer, value)) for value in values)
    return [found for one in changed if (found := prompts.exchange(one))] if example.answer else []


def reply_losses(
    student: Student, context: list[int], replies: list[list[int]], state: FusedState | None
) -> Tensor:
    """Summed loss of each reply behind one context, which is read once."""
    injector, device = student.injector, student.injector.model.device
    cache, injection = DynamicCache(), injector.prepare([state])
    with injector.active(injection):
        before = injector.read(cache, input_ids=torch.tensor([context], device=device))[:, -1:]
    # What is past a reply's end is read behind it and changes nothing in it.
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(reply) for reply in replies], batch_first=True).to(device)
    with injector.active(_repeated(injection, len(replies))):
        final = injector.read(filled_cache(keys_values(cache), len(replies)), input_ids=ids[:, :-1])
    logits = student.logits(torch.cat([before.expand(len(replies), -1, -1), final], 1))
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids, reduction="none")
    return torch.stack([row[: len(reply)].sum() for row, reply in zip(losses, replies, strict=True)])


def _repeated(injection: Injection | None, rows: int) -> Injection | None:
    """The same state in several rows."""
    if injection is None:
        return None
    slots, log_weights = injection.slots.expand(rows, -1, -1), injection.log_weights.expand(rows, -1)
    return Injection(slots, log_weights, injection.prefix)
