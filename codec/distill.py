"""What training needs of the frozen model, computed once: layer-L states, and the teacher's final states."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache

from codec.dialogues import Example
from codec.inject import Injector
from codec.prefix import KeysValues, filled_cache, keys_values
from codec.prompts import Exchange, Prompts

_BATCH_TOKENS = 2_048
_SHARD = 256  # examples a file

_T = TypeVar("_T")


@dataclass
class Lesson:
    """One example in hidden states of width d.

    ``prefix``: the tokens before. ``tail`` [t, d] and its ``ids`` [t]: question and reply at the input of layer
    L+1; ``segments`` [n, d]: what was said, likewise; ``taught`` and ``untaught`` [r, d]: the final states from
    which the frozen model predicts the r reply tokens, with the text of the segments and without. ``answer``:
    which of these tokens are the answer.
    """

    prefix: tuple[int, ...]
    ids: Tensor
    tail: Tensor
    segments: list[Tensor]
    taught: Tensor
    untaught: Tensor
    answer: tuple[int, int] = (0, 0)

    @property
    def reply_ids(self) -> Tensor:
        """The ids [r] of the reply."""
        return self.ids[-len(self.taught) :]


class PrefixCaches:
    """Caches that have read a prefix, made once for every prefix and handed out for any number of rows."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._read: dict[tuple[int, ...], list[KeysValues]] = {}

    def open(self, prefix: tuple[int, ...], rows: int) -> DynamicCache:
        """A cache of its own for ``rows`` rows."""
        if prefix not in self._read:
            ids = torch.tensor([prefix], device=self._injector.model.device)
            cache = DynamicCache()
            with torch.no_grad():
                self._injector.read(cache, input_ids=ids)
            self._read[prefix] = keys_values(cache)
        return filled_cache(self._read[prefix], rows)


class Teacher:
    """The frozen model, asked in batches.

    ``running_share``: in this share of the lessons a segment is read behind those before it, as in a long
    conversation; in the others by itself, as after each turn of a private one.
    """

    def __init__(self, injector: Injector, prompts: Prompts, running_share: float = 0.0) -> None:
        self._injector, self._prompts, self._caches = injector, prompts, PrefixCaches(injector)
        self._running_share = running_share

    def prepare(
        self, examples: Sequence[Example], on_done: Callable[[int], None] = lambda count: None
    ) -> list[Lesson | None]:
        """One lesson an example; None where tokens run across a seam."""
        lessons: list[Lesson | None] = [None] * len(examples)
        for prefix, exchanges in self._exchanges(examples):
            usable = {at: exchange for at, exchange in exchanges.items() if exchange}
            made = self._lessons(prefix, list(usable.values()))
            for at, lesson in zip(usable, made, strict=True):
                lessons[at] = lesson
            on_done(len(exchanges))
        return lessons

    @torch.no_grad()
    def told(self, examples: Sequence[Example]) -> list[tuple[Tensor, Exchange] | None]:
        """Only the final states [r, d] that predict each reply behind the text; None as for a lesson."""
        found: list[tuple[Tensor, Exchange] | None] = [None] * len(examples)
        for prefix, exchanges in self._exchanges(examples):
            usable = {at: exchange for at, exchange in exchanges.items() if exchange}
            full = self._run(prefix, [exchange.full.ids for exchange in usable.values()])
            for (at, exchange), (_, final) in zip(usable.items(), full, strict=True):
                found[at] = _predicting(final, exchange), exchange
        return found

    def _exchanges(
        self, examples: Sequence[Example]
    ) -> Iterator[tuple[tuple[int, ...], dict[int, Exchange | None]]]:
        """Examples with the prefix they share, a part at a time, by their places."""
        order = sorted(range(len(examples)), key=lambda at: examples[at].system)
        for system, group in itertools.groupby(order, key=lambda at: examples[at].system):
            prefix = tuple(self._prompts.prefix(system))
            for part in _chunks(list(group), 64):
                yield prefix, {at: self._prompts.exchange(examples[at]) for at in part}

    @torch.no_grad()
    def _lessons(self, prefix: tuple[int, ...], exchanges: Sequence[Exchange]) -> list[Lesson]:
        # By the tokens, so that an example is read in the same way whenever and wherever it is.
        running = [random.Random(str(exchange.tail)).random() < self._running_share for exchange in exchanges]
        full = self._run(prefix, [exchange.full.ids for exchange in exchanges])
        bare = self._run(prefix, [exchange.prefix + exchange.tail for exchange in exchanges])
        single = [p for exchange, run in zip(exchanges, running, strict=True) if not run for p in exchange.alone]
        alone = iter(self._run(prefix, [prompt.ids for prompt in single], lower_only=True))
        lessons = []
        for exchange, run, (full_states, taught), (bare_states, untaught) in zip(
            exchanges, running, full, bare, strict=True
        ):
            if run:
                segments = [_cut(full_states, span, prefix) for span in exchange.full.spans]
            else:
                segments = [_cut(next(alone)[0], prompt.spans[0], prefix) for prompt in exchange.alone]
            lessons.append(
                Lesson(
                    prefix=tuple(exchange.prefix),
                    ids=torch.tensor(exchange.tail),
                    tail=bare_states[-len(exchange.tail) :].clone(),
                    segments=segments,
                    taught=_predicting(taught, exchange),
                    untaught=_predicting(untaught, exchange),
                    answer=exchange.answer,
                )
            )
        return lessons

    def _run(
        self, prefix: tuple[int, ...], sequences: Sequence[list[int]], lower_only: bool = False
    ) -> list[tuple[Tensor, Tensor]]:
        """Layer-L states and final states [n, d] of every sequence behind the prefix it begins with."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        behind = [ids[len(prefix) :] for ids in sequences]
        for rows in _batches([len(ids) for ids in behind]):
            states, final = self._forward(prefix, [behind[row] for row in rows], lower_only)
            for at, row in enumerate(rows):
                found[row] = states[at, : len(behind[row])], final[at, : len(behind[row])]
        return [found[row] for row in range(len(sequences))]

    def _forward(
        self, prefix: tuple[int, ...], rows: Sequence[list[int]], lower_only: bool
    ) -> tuple[Tensor, Tensor]:
        width, device = max(map(len, rows)), self._injector.model.device
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=device)
        mask = torch.tensor(
            [[1] * (len(prefix) + len(row)) + [0] * (width - len(row)) for row in rows], device=device
        )
        cache = self._caches.open(prefix, len(rows))
        with self._injector.active(None, lower_only=lower_only) as tap:
            final = self._injector.read(cache, input_ids=ids, attention_mask=mask)
        return tap.states.cpu(), final.cpu()


def cached_lessons(
    folder: Path, examples: Sequence[Example], teacher: Teacher, identity: str, on_done: Callable[[int], None]
) -> list[Lesson]:
    """Lessons of the examples, kept in files in ``folder``; what an interrupted call has made is not made again.

    ``identity`` names the model and layer; files of other examples or another model have other names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lessons: list[Lesson] = []
    for part in _chunks(list(examples), _SHARD):
        path = folder / f"{hashlib.sha256(f'{identity} {part}'.encode()).hexdigest()[:24]}.pt"
        if path.exists():
            made = [Lesson(**fields) for fields in torch.load(path, weights_only=True)]
            on_done(len(part))
        else:
            made = [lesson for lesson in teacher.prepare(part, on_done) if lesson]
            torch.save([vars(lesson) for lesson in made], path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)
        lessons += made
    return lessons


def _predicting(final: Tensor, exchange: Exchange) -> Tensor:
    """The states that predict the reply, of those of a sequence that ends with it."""
    reply = len(exchange.tail) - exchange.reply_at
    return final[-reply - 1 : -1].clone()


def _cut(states: Tensor, span: tuple[int, int], prefix: tuple[int, ...]) -> Tensor:
    return states[span[0] - len(prefix) : span[1] - len(prefix)].clone()


def _chunks(items: list[_T], size: int) -> Iterator[list[_T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices, shortest first, in batches of up to ``_BATCH_TOKENS`` padded tokens."""
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lambda at: lengths[at]):
        if batch and (len(batch) + 1) * lengths[at] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


@dataclass
class Batch:
    """Lessons of one prefix, padded: segments on the left, tails on the right; masks are 1 where something is.

    ``segments`` [B * size, n, d], ``tail`` [B, t, d], ``position`` [R, 2]: row and column of each predicting
    token; ``taught`` and ``untaught`` [R, d], ``ids`` [R] and ``in_answer`` [R] in the same order.
    """

    prefix: tuple[int, ...]
    segments: Tensor
    segment_mask: Tensor
    tail: Tensor
    tail_mask: Tensor
    position: Tensor
    taught: Tensor
    untaught: Tensor
    ids: Tensor
    in_answer: Tensor

    @property
    def rows(self) -> int:
        """How many lessons."""
        return len(self.tail)


def collate(lessons: Sequence[Lesson], size: int, device: Any = "cpu") -> Batch:
    """A batch of lessons of one prefix."""
    segments = [segment for lesson in lessons for segment in _filled(lesson.segments, size)]
    tail, tail_mask = _pad([lesson.tail for lesson in lessons], left=False)
    padded, mask = _pad(segments, left=True)
    position = [
        (row, len(lesson.ids) - len(lesson.taught) - 1 + at)
        for row, lesson in enumerate(lessons)
        for at in range(len(lesson.taught))
    ]
    return Batch(
        lessons[0].prefix,
        padded.to(device),
        mask.to(device),
        tail.to(device),
        tail_mask.to(device),
        torch.tensor(position, device=device),
        torch.cat([lesson.taught for lesson in lessons]).to(device),
        torch.cat([lesson.untaught for lesson in lessons]).to(device),
        torch.cat([lesson.reply_ids for lesson in lessons]).to(device),
        torch.cat([_within(lesson.answer, len(lesson.taught)) for lesson in lessons]).to(device),
    )


def _within(span: tuple[int, int], count: int) -> Tensor:
    at = torch.arange(count)
    return (span[0] <= at) & (at < span[1])


def _filled(segments: list[Tensor], size: int) -> list[Tensor]:
    """The last ``size`` segments, with segments of no tokens in front if there are fewer."""
    return [segments[0][:0]] * (size - len(segments)) + segments[-size:]


def _pad(rows: Sequence[Tensor], left: bool) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    padded = rows[0].new_zeros(len(rows), width, rows[0].shape[-1])
    mask = torch.zeros(len(rows), width)
    for row, states in enumerate(rows):
        where = slice(width - len(states), width) if left else slice(0, len(states))
        padded[row, where], mask[row, where] = states, 1
    return padded, mask


def shuffled_batches(lessons: Sequence[Lesson], rows: int, rng: random.Random) -> list[list[int]]:
    """Indices in batches of one prefix each and of similar length, in random order."""
    order = list(range(len(lessons)))
    rng.shuffle(order)
    order.sort(key=lambda at: (lessons[at].prefix, len(lessons[at].ids) // 8))
    batches: list[list[int]] = []
    for at in order:
        fits = batches and len(batches[-1]) < rows and lessons[batches[-1][0]].prefix == lessons[at].prefix
        batches[-1].append(at) if fits else batches.append([at])
    rng.shuffle(batches)
    return batches
