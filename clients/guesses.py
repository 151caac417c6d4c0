"""``echoic guesses``: count how a model's replies go on, for it to guess by."""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from clients.options import add_model_options, config_from
from pipeline.backends.guesses import MOST_CONTEXT, Guesses
from pipeline.config import Config
from pipeline.ports import InputError, Message, Prompt, Token
from pipeline.store import Store
from pipeline.utterance import spoken_form

if TYPE_CHECKING:
    from codec.dialogues import Turn
    from pipeline.backends.causal_lm import CausalLM

TURNS_BEFORE = 2  # the message, of what was said in the dialogue
REPLY_TOKENS = 30
HELD_OUT = 5  # one reply in so many shows what the guesses of the others are worth


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "guesses",
        help="count how a model's replies go on, for it to guess by",
        description="Has the model answer people in dialogues, and keeps what often follows the last few tokens. "
        "It then says the same words in fewer steps.",
    )
    parser.add_argument(
        "--data", type=Path, action="append", required=True, metavar="FILE", help="dialogues, JSONL"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the guesses, as .npz")
    parser.add_argument("--replies", type=int, default=600, metavar="N", help="to count (600)")
    parser.add_argument("--seed", type=int, default=0, help="which dialogues (0)")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Count, tell what it is worth, and write."""
    from pipeline.backends.causal_lm import CausalLM
    from pipeline.backends.loader import load_language_model

    config = config_from(args)
    prompts = _prompts(args.data, args.replies, args.seed, config)
    unguessed = replace(config, llm=replace(config.llm, guesses=False))
    with closing(load_language_model(unguessed, Store.default())) as model:
        if not isinstance(model, CausalLM):
            raise InputError(f"{config.llm.model} runs elsewhere: guesses are for a model on this machine")
        replies = asyncio.run(_replies(model, prompts, REPLY_TOKENS))
        at_once = model.rows_at_once - 1
    held_out = replies[::HELD_OUT]
    counted = [reply for number, reply in enumerate(replies) if number % HELD_OUT]
    worth = tokens_a_step(Guesses.counted(counted, at_once), held_out)
    Console(highlight=False).print(f"{worth:.2f} tokens a step on {len(held_out)} replies that were not counted")
    Guesses.counted(replies, at_once).write(args.out)
    return 0


def tokens_a_step(guesses: Guesses, replies: Sequence[Sequence[int]]) -> float:
    """How many tokens of these replies a step makes on average, with as many guesses as are worth making."""
    steps = tokens = 0
    for ids in replies:
        end = MOST_CONTEXT
        while end < len(ids):
            guessed = guesses.after(ids[:end], len(ids) - end - 1)
            wrong = (at for at, one in enumerate(guessed) if one != ids[end + at])
            end += next(wrong, len(guessed)) + 1
            steps += 1
        tokens += len(ids) - MOST_CONTEXT
    return tokens / max(1, steps)


def _prompts(paths: Sequence[Path], count: int, seed: int, config: Config) -> list[Prompt]:
    """The user's turns of so many dialogues, one of each, with what was said before."""
    from codec.dialogues import read_dialogues

    draw = random.Random(seed)
    dialogues = [dialogue for path in paths for dialogue in read_dialogues(path)]
    system = Message("system", config.llm.instructions)
    prompts = []
    for dialogue in draw.sample(dialogues, min(count, len(dialogues))):
        asked = draw.choice([at for at, turn in enumerate(dialogue) if turn.role == "user"] or [0])
        turns = dialogue[max(0, asked - TURNS_BEFORE) : asked + 1]
        prompts.append(Prompt((system, *map(_message, turns))))
    return prompts


def _message(turn: Turn) -> Message:
    text = spoken_form(turn.text) if turn.role == "user" else turn.text
    return Message("user" if turn.role == "user" else "assistant", text)


async def _replies(model: CausalLM, prompts: Sequence[Prompt], most: int) -> list[list[int]]:
    """The model's replies to them, as token ids behind the end of their prompts."""
    conversation = model.open()
    replies = []
    for prompt in track(prompts, "replies"):
        parts = [part async for part in conversation.generate(prompt, most)]
        ids = [part.id for part in parts if isinstance(part, Token)]
        replies.append([*model.tokens(prompt).ids[-MOST_CONTEXT:], *ids])
    await conversation.close()
    return replies
