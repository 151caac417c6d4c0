"""The pipeline itself: how late its loop is under load, and what it takes when its models take no time at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clients.beside import beside
from clients.clip import replay_clip
from clients.crowd import measure_level
from clients.measure import ClipResult
from clients.realtime import RATE_HZ as WIRE_HZ
from clients.recordings import Recording
from pipeline.config import Config
from pipeline.cores import Cores
from pipeline.loop_lag import run_loop_lag
from pipeline.ports import Exchange, Hypothesis, Prefill, Prompt, Samples, Speech, Token
from pipeline.timing import Mark

if TYPE_CHECKING:
    from server.app import Server

QUESTION, ANSWER = "What is the time?", "It is ten."
SPOKEN_S = 0.5
LOUD = 0.1


class Instant:
    """Every stage at no cost: loud sound is the question, the answer is always the same, and a tone."""

    name = "instant"
    text_done = 1.0
    exchange = None

    def open(self) -> Instant:
        """An ear or a conversation: neither keeps anything."""
        return self

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        """Voice activity; see the port."""
        return [0.95 if np.abs(frame).max(initial=0.0) > LOUD else 0.0 for frame in frames]

    def reset(self) -> None:
        """Voice activity; see the port."""

    async def judge(self, sound: Samples) -> float:
        """Turn end; see the port."""
        return 1.0

    async def recognise(self, sound: Samples, **known: Any) -> Hypothesis:
        """Recogniser; see the port."""
        return Hypothesis(QUESTION if np.abs(sound).max(initial=0.0) > LOUD else "")

    def count_tokens(self, text: str) -> int:
        """Language model; see the port."""
        return len(text.split())

    def new_memory(self) -> None:
        """Language model; see the port."""

    async def prefill(self, prompt: Prompt) -> Prefill:
        """Conversation; see the port."""
        return Prefill(0, 0, 0)

    async def generate(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[Token, None]:
        """Conversation; see the port."""
        for number, word in enumerate(ANSWER.split()):
            yield Token(number, f"{word} ")

    async def segments(self, exchange: Exchange, reply_tokens: int) -> tuple[tuple[()], tuple[()]]:
        """Conversation; see the port."""
        return (), ()

    async def forget(self) -> None:
        """Conversation; see the port."""

    async def load(self) -> None:
        """Voice: there is nothing to load."""

    async def speak(self, phrase: str, speed: float = 1.0) -> Speech:
        """Voice; see the port."""
        width = 10 * len(phrase)
        starts = tuple(range(0, width, 10))
        return Speech(tone(width / 1000), WIRE_HZ, phrase, starts, (10,) * len(phrase))

    async def close(self) -> None:
        """Conversation; see the port."""


def tone(seconds: float) -> Samples:
    """Sound that is heard from its first sample to its last."""
    time = np.arange(round(seconds * WIRE_HZ)) / WIRE_HZ
    return (0.3 * np.cos(2 * np.pi * 220 * time)).astype(np.float32)


async def lags_s(server: Server, questions: Sequence[Recording], sessions: int) -> list[float]:
    """Seconds by which the event loop was late while so many users asked, each twice."""
    lags: list[float] = []
    share = server.models.cores.load.share
    async with beside(run_loop_lag(lags.append)):
        await measure_level(questions, server.realtime_url, share, sessions, turns=2)
    return lags


async def overheads_s(config: Config, turns: int) -> list[float]:
    """Seconds from the pause being seen to the first sound being sent, in so many turns.

    The turn is over at the pause, whatever the evidence, so that nothing is waited for.
    """
    from server.app import Server

    instant: Any = Instant()
    models = SimpleNamespace(
        cores=Cores(1), vad=instant, turn_end=instant, recogniser=instant, language_model=instant
    )
    at_once = replace(config, turn=replace(config.turn, fixed_wait_ms=config.listen.pause_ms))
    spoken = Recording(Path("tone"), tone(SPOKEN_S), WIRE_HZ, QUESTION, speech_end_s=SPOKEN_S)
    async with Server(at_once, models=cast(Any, models), voice=cast(Any, instant)) as server:
        return [_overhead_s(await replay_clip(spoken, server.realtime_url)) for _ in range(turns)]


def _overhead_s(result: ClipResult) -> float:
    (turn,) = result.turns
    marks = turn.record["marks_ms"]
    return float(marks[Mark.FIRST_AUDIO_SENT] - marks[Mark.PAUSE_SEEN]) / 1000
