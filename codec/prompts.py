"""Dialogues as token ids with the model's own chat template, and where in them the words are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codec.dialogues import Example, Turn
from codec.model import CodecError

# Templates want sides to alternate, beginning with the user's.
_OPENING = Turn("user", "Hello.")

Span = tuple[int, int]  # first token, one past the last


@dataclass(frozen=True)
class Prompt:
    """Token ids and, for every turn, the span of its words (the template's own tokens are not part of it)."""

    ids: list[int]
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Exchange:
    """One example as the model reads it.

    ``prefix``: what comes before the question's words when nothing else was said. ``tail``: question and reply;
    its first ``reply_at`` tokens are the question, and of the reply's tokens ``answer`` are the answer.
    ``full``: with the text of all segments. ``alone``: every segment by itself.
    """

    prefix: list[int]
    tail: list[int]
    reply_at: int
    full: Prompt
    alone: tuple[Prompt, ...]
    answer: Span = (0, 0)


class Prompts:
    """Renders turns for one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.is_fast or tokenizer.chat_template is None:
            raise CodecError("training needs a fast tokenizer with a chat template: this model brings none")
        self._tokenizer = tokenizer

    def turns(self, system: str, turns: Sequence[Turn]) -> Prompt:
        """The turns behind a system prompt; spans are those of the turns given."""
        opened = [_OPENING, *turns] if turns[0].role != "user" else list(turns)
        text = self._render(system, opened)
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans, at = [], text.find(system) + len(system)
        for turn in opened:
            words = turn.text.strip()
            begin = text.index(words, at)
            at = begin + len(words)
            spans.append(_tokens_within(encoded["offset_mapping"], begin, at))
        return Prompt(encoded["input_ids"], tuple(spans[-len(turns) :]))

    def _render(self, system: str, turns: Sequence[Turn]) -> str:
        messages = [{"role": turn.role, "content": turn.text.strip()} for turn in turns]
        messages.insert(0, {"role": "system", "content": system})
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False))

    def prefix(self, system: str) -> list[int]:
        """The ids that every conversation behind this system prompt begins with."""
        one, other = (self.turns(system, [Turn("user", text)]).ids for text in ("Yes.", "7 of them?"))
        return [a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))]

    def last_tokens(self, text: str, count: int) -> tuple[str, int]:
        """The end of a text, up to so many tokens, and how many it has."""
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"][-count:] if count > 0 else []
        return str(self._tokenizer.decode(ids)), len(ids)

    def exchange(self, example: Example, reply: str = "") -> Exchange | None:
        """An example, with another reply if one is given; None if tokens run across the seam of the question."""
        last = (Turn("user", example.question), Turn("assistant", reply or example.reply))
        bare, full = self.turns(example.system, last), self.turns(example.system, (*example.segments, *last))
        begin, end = bare.spans[0][0], bare.spans[1][1] + 1  # with the token that ends the reply
        tail = bare.ids[begin:end]
        begin_full = full.spans[-2][0]
        if full.ids[begin_full : begin_full + len(tail)] != tail:
            return None
        return Exchange(
            prefix=bare.ids[:begin],
            tail=tail,
            reply_at=bare.spans[1][0] - begin,
            full=Prompt(full.ids[: begin_full + len(tail)], full.spans[:-2]),
            alone=tuple(self.turns(example.system, [turn]) for turn in example.segments),
            answer=self._answer(tail[bare.spans[1][0] - begin :], example.answer),
        )

    def _answer(self, reply: Sequence[int], answer: str) -> Span:
        """Which tokens of a reply are the answer; (0, 0) if there is none."""
        ends = [len(self._tokenizer.decode(reply[:count])) for count in range(len(reply) + 1)]
        begin = str(self._tokenizer.decode(reply)).find(answer) if answer else -1
        if begin < 0:
            return 0, 0
        held = [at for at in range(len(reply)) if ends[at] < begin + len(answer) and ends[at + 1] > begin]
        return held[0], held[-1] + 1


def _tokens_within(offsets: Sequence[tuple[int, int]], begin: int, end: int) -> Span:
    """The tokens that hold any of the characters from ``begin`` to ``end``."""
    inside = [at for at, (first, last) in enumerate(offsets) if first < end and last > begin]
    return inside[0], inside[-1] + 1
