"""A whole session on virtual time: scripted speech in, events out, every stage at a declared cost.

The sound carries its own time: sample number n has the value n / SCALE, so the scripted recogniser knows which
words a stretch of sound holds without being told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from codec.memory import EchoicMemory
from codec.window import SegmentState
from pipeline.config import Config, load_config
from pipeline.events import ReplyAudio, ReplyEnded, SessionEvent, TurnClosed, UserTranscript
from pipeline.frames import SpokenAudio, WordTime
from pipeline.ports import (
    RATE_HZ,
    Exchange,
    Hypothesis,
    Message,
    Prefill,
    Prompt,
    PromptRead,
    Samples,
    StageError,
    Token,
    ToolCall,
)
from pipeline.session import Session, Stages
from pipeline.timing import TurnRecord, loop_clock

SCALE = 16_777_216  # 2**24: whole numbers below it are exact in float32
CHUNK_MS = 20
E = TypeVar("E")
Segments = tuple[SegmentState, ...]
Wish = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Say:
    """Words of the user from one second to another, evenly spread; no text is a cough or a noise."""

    start_s: float
    end_s: float
    text: str = ""

    def words(self) -> list[tuple[str, float]]:
        """Each word with the second at which it ends."""
        parts = self.text.split()
        step = (self.end_s - self.start_s) / max(1, len(parts))
        return [(word, self.start_s + step * (index + 1)) for index, word in enumerate(parts)]


@dataclass
class Costs:
    """Seconds of virtual time."""

    recognition: float = 0.080
    judgement: float = 0.060
    token: float = 0.015
    phrase: float = 0.020


class ScriptedActivity:
    def __init__(self, script: list[Say]) -> None:
        self._script = script

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        return [self._probability(frame) for frame in frames]

    def reset(self) -> None: ...

    def _probability(self, frame: Samples) -> float:
        middle = float(frame[len(frame) // 2]) * SCALE / RATE_HZ
        return 0.95 if any(say.start_s <= middle < say.end_s for say in self._script) else 0.02


class ScriptedRecogniser:
    def __init__(self, script: list[Say], cost: float) -> None:
        self._words = [word for say in script for word in say.words()]
        self._cost = cost
        self.failures = 0

    async def recognise(self, sound: Samples, **_known: Any) -> Hypothesis:
        await asyncio.sleep(self._cost)
        if self.failures:
            self.failures -= 1
            raise StageError("speech recognition", "scripted failure")
        heard = sound[sound > 0]
        if not len(heard):
            return Hypothesis("")
        start, end = float(heard[0]) * SCALE / RATE_HZ, float(heard[-1]) * SCALE / RATE_HZ
        return Hypothesis(" ".join(word for word, at in self._words if start < at <= end + 0.001), -0.1)


class ScriptedTurnEnd:
    def __init__(self, done: float, cost: float) -> None:
        self._done, self._cost = done, cost

    async def judge(self, sound: Samples) -> float:
        await asyncio.sleep(self._cost)
        return self._done


class ScriptedModel:
    """Answers every prompt with the same words, a token a word, and remembers what it was asked."""

    def __init__(self, reply: str, cost: float) -> None:
        self.reply, self.cost = reply, cost
        self.prompts: list[Prompt] = []
        self.read: list[str] = []
        self.fails = False
        self.tells: PromptRead | None = None
        self.ends_with: ToolCall | None = None
        self.text_done: float | None = 0.5

    def open(self) -> ScriptedModel:
        return self

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def prefill(self, prompt: Prompt) -> Prefill:
        self.read.append(prompt.messages[-1].text)
        return Prefill(0, 0, 1)

    async def generate(
        self, prompt: Prompt, max_tokens: int
    ) -> AsyncGenerator[Token | ToolCall | PromptRead, None]:
        self.prompts.append(prompt)
        if self.tells:
            yield self.tells
        for number, word in enumerate(self.reply.split()[:max_tokens]):
            await asyncio.sleep(self.cost)
            if self.fails:
                raise StageError("language model", "scripted failure")
            yield Token(number, word + " ")
        if self.ends_with:
            yield self.ends_with

    exchange = None

    def new_memory(self) -> EchoicMemory | None:
        return None

    async def segments(self, exchange: Exchange, reply_tokens: int) -> tuple[Segments, Segments]:
        return (), ()

    async def forget(self) -> None:
        self.prompts.clear()
        self.read.clear()

    async def close(self) -> None: ...


class ScriptedSpeech:
    """A voice that takes 20 ms a word to make and 300 ms a word to say."""

    rate_hz = 24_000
    word_ms = 300

    def __init__(self, cost: float) -> None:
        self._cost = cost
        self.open_contexts: set[str] = set()
        self.expected_at: list[float] = []
        self.fails = False

    def connect_ahead(self) -> None:
        self.expected_at.append(loop_clock())

    async def __aenter__(self) -> ScriptedSpeech:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def open(self, context: str, speed: float = 1.0) -> ScriptedContext:
        if self.fails:
            raise StageError("speech", "scripted failure")
        self.open_contexts.add(context)
        return ScriptedContext(self, context)

    async def made(self, word: str, before: int) -> SpokenAudio:
        await asyncio.sleep(self._cost)
        samples = self.rate_hz * self.word_ms // 1000
        pcm = np.full(samples, 1000, "<i2").tobytes()
        return SpokenAudio(pcm, self.rate_hz, (WordTime(word, before, before + samples),))


class ScriptedContext:
    def __init__(self, speech: ScriptedSpeech, name: str) -> None:
        self._speech, self._name = speech, name
        self._words: asyncio.Queue[str | None] = asyncio.Queue(1000)
        self.first_phrase_at: float | None = None
        self.first_audio_at: float | None = None

    async def say(self, text: str) -> None:
        self.first_phrase_at = self.first_phrase_at or loop_clock()
        await self._words.put(text.strip())

    async def finish(self) -> None:
        await self._words.put(None)

    async def audio(self) -> AsyncIterator[SpokenAudio]:
        before = 0
        while (word := await self._words.get()) is not None:
            piece = await self._speech.made(word, before)
            before += len(piece.pcm) // 2
            yield piece

    async def cancel(self) -> None:
        self._speech.open_contexts.discard(self._name)


@dataclass
class Log:
    """What the session told, and when."""

    entries: list[tuple[float, SessionEvent]] = field(default_factory=list)

    def all(self, kind: type[E]) -> list[E]:
        return [event for _, event in self.entries if isinstance(event, kind)]

    def first_at(self, kind: type[Any]) -> float:
        return next(at for at, event in self.entries if isinstance(event, kind))

    def audio_ms(self, turn: int) -> float:
        return sum(len(one.pcm) / 48 for one in self.all(ReplyAudio) if one.turn == turn)

    @property
    def transcripts(self) -> list[str]:
        return [event.text for event in self.all(UserTranscript)]

    @property
    def replies(self) -> list[tuple[str, str]]:
        return [(event.status, event.heard) for event in self.all(ReplyEnded)]

    @property
    def records(self) -> list[TurnRecord]:
        return [event.record for event in self.all(TurnClosed)]


class Conversation:
    """Plays a script to a session and logs it. Change ``model``, ``speech`` or ``recogniser`` before ``run``."""

    def __init__(
        self,
        *script: Say,
        reply: str = "It is ten",
        done: float = 0.97,
        costs: Costs | None = None,
        **settings: Any,
    ) -> None:
        costs = costs or Costs()
        config: Config = load_config(overrides={key.replace("__", "."): value for key, value in settings.items()})
        self.script = list(script)
        self.model = self._model(reply, costs.token)
        self.speech = ScriptedSpeech(costs.phrase)
        self.recogniser = ScriptedRecogniser(self.script, costs.recognition)
        turn_end = ScriptedTurnEnd(done, costs.judgement)
        ear = ScriptedActivity(self.script)
        stages: Any = Stages(ear, turn_end, self.recogniser, self.model, self.speech, lambda: ear)
        self.session = Session(stages, config, loop_clock)
        self._wishes: list[tuple[float, Wish]] = []
        self.log = Log()

    def at(self, seconds: float, wish: Wish) -> None:
        """The client wants this done at that second."""
        self._wishes.append((seconds, wish))

    async def run(self, seconds: float, *, muted_from: float = float("inf")) -> Log:
        """Real-time sound for so many seconds of virtual time; from ``muted_from`` on, none comes."""
        running = asyncio.create_task(self.session.run())
        wishing = asyncio.create_task(self._wish())
        logging = asyncio.create_task(self._log())
        began, position, step = loop_clock(), 0, RATE_HZ * CHUNK_MS // 1000
        while loop_clock() - began < seconds:
            if position / RATE_HZ < muted_from:
                samples = np.arange(position, position + step, dtype=np.float32) / SCALE
                await self.session.hear(samples)
            position += step
            await asyncio.sleep(began + position / RATE_HZ - loop_clock())
        await wishing
        await self.session.close()
        await running
        await logging
        return self.log

    @property
    def history(self) -> list[tuple[str, str]]:
        return [(message.role, message.text) for message in self.session.history.messages]

    def _model(self, reply: str, cost: float) -> ScriptedModel:
        return ScriptedModel(reply, cost)

    async def _wish(self) -> None:
        began = loop_clock()
        for seconds, wish in sorted(self._wishes, key=lambda one: one[0]):
            await asyncio.sleep(began + seconds - loop_clock())
            await wish()

    async def _log(self) -> None:
        begin = loop_clock()
        async for event in self.session.events:
            self.log.entries.append((loop_clock() - begin, event))
            del event  # the log has it


__all__ = ["Conversation", "Costs", "Log", "Message", "Say"]
