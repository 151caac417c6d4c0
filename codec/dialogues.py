"""What a codec is trained and judged on: a few segments that were said, a question, and the reply to it.

Dialogues come from JSONL (``{"turns": [{"role": ..., "text": ...}, ...]}``, one a line); recall dialogues are made
by codec/recall.py. Train and test never share a dialogue; recall never shares a value either.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from codec.model import CodecError

SYSTEMS = (
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    "You are a friendly voice assistant. Answer in one or two short spoken sentences.",
    "You are a helpful assistant on the phone. Be brief and precise.",
    "Answer the user.",
)
# What carries meaning from one turn to another: clock times, numbers, and names inside a sentence.
_VALUE = re.compile(r"\$?\d[\d,]*(?::\d\d)?(?: ?[ap]\.?m\b\.?)?|(?<=[a-z,] )[A-Z][a-z']+(?: [A-Z][a-z']+)*")
_TIME = re.compile(r"\d:\d|\d ?[ap]\.?m", re.IGNORECASE)


class Turn(NamedTuple):
    """One side's words; ``role`` is "user" or "assistant"."""

    role: str
    text: str


_Found = tuple[tuple[Turn, ...], str, str, str]  # segments, question, reply, answer


@dataclass(frozen=True)
class Example:
    """``segments`` were said, oldest first; then the user asks ``question`` and hears ``reply``.

    ``answer``: the part of the reply that only the segments tell, "" if none; ``others``: wrong ones of its kind.
    """

    system: str
    segments: tuple[Turn, ...]
    question: str
    reply: str
    answer: str = ""
    others: tuple[str, ...] = ()


def read_dialogues(path: Path) -> list[list[Turn]]:
    """All dialogues of a JSONL file; raises CodecError naming the line that is not one."""
    dialogues = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CodecError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            dialogues.append([Turn(turn["role"], turn["text"]) for turn in json.loads(line)["turns"]])
        except (ValueError, KeyError, TypeError) as error:
            raise CodecError(
                f"{path}, line {number}: no dialogue with turns of role and text: {error!r}"
            ) from error
    return dialogues


def windows(dialogue: Sequence[Turn], size: int) -> list[tuple[tuple[Turn, ...], str, str]]:
    """Every (segments, question, reply) of a dialogue: a user turn with something before it and a reply after."""
    found = []
    for at in range(2, len(dialogue) - 1):
        before, question, reply = dialogue[max(0, at - size) : at], dialogue[at], dialogue[at + 1]
        alternating = all(
            one.role != two.role for one, two in zip(before, dialogue[at - len(before) + 1 :], strict=False)
        )
        if question.role == "user" and reply.role == "assistant" and alternating:
            found.append((tuple(before), question.text, reply.text))
    return found


def sample(
    dialogues: Iterable[Sequence[Turn]], count: int, size: int, seed: int, informed: float
) -> list[Example]:
    """``count`` examples, at most two a dialogue; at least a share ``informed`` takes up a value."""
    rng = random.Random(seed)
    plain: list[_Found] = []
    carrying: list[_Found] = []
    for dialogue in dialogues:
        found = windows(dialogue, size)
        for segments, question, reply in rng.sample(found, min(2, len(found))):
            answer = carried_value(segments, question, reply)
            (carrying if answer else plain).append((segments, question, reply, answer))
    rng.shuffle(plain)
    rng.shuffle(carrying)
    wanted = min(round(count * informed), len(carrying))
    rest = plain + carrying[wanted:]
    chosen = carrying[:wanted] + rng.sample(rest, min(count - wanted, len(rest)))
    rng.shuffle(chosen)
    pool = [answer for *_, answer in carrying]
    return [
        Example(rng.choice(SYSTEMS), segments, question, reply, answer, distractors(answer, pool, rng))
        for segments, question, reply, answer in chosen
    ]


def carried_value(segments: Sequence[Turn], question: str, reply: str) -> str:
    """A time, number or name of the reply that the segments say and the question does not; "" if there is none."""
    said = " ".join(turn.text for turn in segments)
    for match in _VALUE.finditer(reply):
        value = match.group().strip()
        if len(value) > 1 and value in said and value not in question:
            return value
    return ""


def distractors(answer: str, pool: Sequence[str], rng: random.Random, count: int = 4) -> tuple[str, ...]:
    """``count`` other values of the answer's kind, fewer if the pool has no more."""
    if not answer:
        return ()
    same = sorted({value for value in pool if value and _kind(value) == _kind(answer) and value != answer})
    return tuple(rng.sample(same, min(count, len(same))))


def _kind(value: str) -> str:
    if _TIME.search(value):
        return "time"
    return "number" if value[-1].isdigit() else "name"
