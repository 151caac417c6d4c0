"""How many tokens a second the language model makes, for one conversation and for several at once."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from clients.options import add_model_options
from clients.tables import titled
from pipeline.config import Config
from pipeline.ports import Conversation, LanguageModel, Message, Prompt, Token
from pipeline.store import Store

SESSIONS = (1, 2, 4, 8)
SUBJECTS = ("the sea", "a mountain", "an old house", "a clock", "the wind", "two brothers", "a train", "winter")


def add_parser(checks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the check to argparse."""
    parser = checks.add_parser(
        "decode",
        help="how many tokens a second the language model makes, for 1, 2, 4 and 8 conversations",
        description="Lets conversations tell stories at once, and counts the tokens that they get in total.",
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of each number of conversations (5)")
    parser.add_argument("--tokens", type=int, default=32, metavar="N", help="that each gets (32)")
    add_model_options(parser)


def run(args: argparse.Namespace, config: Config, console: Console) -> int:
    """Measure and tell."""
    from pipeline.backends.loader import load_language_model

    for guesses in (False, True):
        guessing = replace(config, llm=replace(config.llm, guesses=guesses))
        with closing(load_language_model(guessing, Store.default())) as model:
            measuring = measure_batches(model, tokens=args.tokens, rounds=args.rounds)
            console.print(render_speeds(asyncio.run(measuring), guesses))
    return 0


@dataclass(frozen=True, slots=True)
class BatchSpeed:
    """Tokens a second in total with so many conversations at once: the best round, and the median."""

    sessions: int
    best: float
    median: float


async def measure_batches(
    model: LanguageModel, sessions: Sequence[int] = SESSIONS, *, tokens: int = 32, rounds: int = 5
) -> list[BatchSpeed]:
    """Let conversations tell long stories; the numbers of them take turns, so that all meet the same machine."""
    speeds: dict[int, list[float]] = {count: [] for count in sessions}
    for _ in range(rounds):
        for count in sessions:
            speeds[count].append(await _tokens_a_second(model, count, tokens))
    return [BatchSpeed(count, max(each), statistics.median(each)) for count, each in speeds.items()]


async def _tokens_a_second(model: LanguageModel, sessions: int, tokens: int) -> float:
    prompts = [
        Prompt((Message("user", f"Tell me a very long story about {SUBJECTS[one % len(SUBJECTS)]}."),))
        for one in range(sessions)
    ]
    conversations = [model.open() for _ in prompts]
    pairs = list(zip(conversations, prompts, strict=True))
    for conversation, prompt in pairs:
        await conversation.prefill(prompt)
    clock = asyncio.get_running_loop().time
    began = clock()
    made = await asyncio.gather(*(_count(conversation, prompt, tokens) for conversation, prompt in pairs))
    seconds = clock() - began
    for conversation in conversations:
        await conversation.close()
    return sum(made) / seconds


async def _count(conversation: Conversation, prompt: Prompt, tokens: int) -> int:
    return len([part async for part in conversation.generate(prompt, tokens) if isinstance(part, Token)])


def render_speeds(speeds: Sequence[BatchSpeed], guesses: bool = False) -> Table:
    """A row for each number of conversations."""
    how = "with guesses where one is alone" if guesses else "each read for itself"
    table = titled(f"Tokens a second in total, {how}")
    for column in ("sessions", "best", "median", "of one, best", "of one, median"):
        table.add_column(column, justify="right")
    for speed in speeds:
        ratios = (f"{speed.best / speeds[0].best:.2f}", f"{speed.median / speeds[0].median:.2f}")
        table.add_row(str(speed.sessions), f"{speed.best:.0f}", f"{speed.median:.0f}", *ratios)
    return table
