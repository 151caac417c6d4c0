"""The language model against memory bandwidth, against transformers, against itself."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from clients.machine import rows
from clients.machine.figures import Go, Row, interleaved
from pipeline.config import LlmConfig
from pipeline.ports import Message, Prompt, Token

if TYPE_CHECKING:
    from clients.machine.stock import StockModel
    from codec.window import FusedState
    from pipeline.backends.causal_lm import CausalLM

TOKENS = 24
ONE, ALL, GPU = "one core", "all cores", "the GPU"
SYSTEM = Message("system", LlmConfig().instructions)
ANIMALS = ("a heron", "a fox", "a snail", "an owl", "a whale", "a horse", "a bee", "an old cat")
QUESTIONS = (
    "Can you tell me what the capital of France is?",
    "I would like to know how many days there are in a week.",
    "Do you happen to remember who wrote Romeo and Juliet?",
    "Please explain to me why the sky is blue.",
)
LAST_WORDS = 2  # of a question, which the recogniser is not sure of before the pause


def story(about: str) -> Prompt:
    """A prompt whose reply is long."""
    return Prompt((SYSTEM, Message("user", f"Tell me a very long story about {about}.")))


class Talks:
    """Conversations that are asked for stories again and again, their prompts read once."""

    def __init__(self, model: CausalLM, count: int) -> None:
        self._conversations = [model.open() for _ in range(count)]
        self._prompts = [story(ANIMALS[number % len(ANIMALS)]) for number in range(count)]

    async def step_s(self) -> float:
        """Seconds a token of the first conversation's reply, the first token left out."""
        return 1 / await self.tokens_per_s(1)

    async def tokens_per_s(self, count: int) -> float:
        """Tokens a second of so many conversations in total, once each has its first."""
        streams = [
            talk.generate(prompt, TOKENS)
            for talk, prompt in zip(self._conversations[:count], self._prompts, strict=False)
        ]
        await asyncio.gather(*(_next_token(stream) for stream in streams))
        began = time.perf_counter()
        came = await asyncio.gather(*(_rest(stream) for stream in streams))
        return sum(map(len, came)) / (max(at for each in came for at in each) - began)


class Pauses:
    """A user who pauses: all but the last words of the question were read while they were spoken."""

    def __init__(self, model: CausalLM) -> None:
        self._talk, self._asked = model.open(), 0

    async def first_token_s(self) -> float:
        """Seconds from the whole question to the reply's first token."""
        question = QUESTIONS[self._asked % len(QUESTIONS)]
        self._asked += 1
        sure = " ".join(question.split()[:-LAST_WORDS])
        await self._talk.prefill(Prompt((SYSTEM, Message("user", sure)), open=True))
        began = time.perf_counter()
        async with aclosing(self._talk.generate(Prompt((SYSTEM, Message("user", question))), 1)) as stream:
            await _next_token(stream)
            return time.perf_counter() - began


async def remembered(model: CausalLM) -> FusedState | None:
    """The state of three turns; None where the model has no codec."""
    memory, talk = model.new_memory(), model.open()
    if memory is None:
        return None
    for now_s, animal in enumerate(ANIMALS[:3]):
        words = " ".join(f"Once upon a time there was {animal} that lived by the sea." for _ in range(4))
        done = await talk.prefill(Prompt((SYSTEM, Message("user", words)), open=True))
        memory.hear(done.said[-1:], now_s / 10)
        memory.settle(now_s / 10)
    await talk.close()
    return memory.fused(len(ANIMALS) / 100)


def bytes_of(state: FusedState) -> int:
    """All numbers of a state: a segment's values, its scale and its length, and its weight."""
    return sum(segment.values.nbytes + 3 * 4 for segment in state.segments)


def kept_bytes(model: CausalLM) -> int:
    """The buffers of keys and values behind a first turn; 0 where they are not the decoder's own arrays."""
    decoder = model.new_decoder()
    decoder.forward(model.prompt_ids(story(ANIMALS[0])), [0])
    return sum(each.nbytes for each in vars(decoder).values() if isinstance(each, np.ndarray))


async def segments_s(model: CausalLM) -> float:
    """Seconds a token that making segments of a message and its reply takes."""
    talk = model.open()
    async with aclosing(talk.generate(story(ANIMALS[0]), TOKENS)) as stream:
        await _rest(stream)
    exchange = talk.exchange
    assert exchange is not None  # the model has a codec
    began = time.perf_counter()
    await talk.segments(exchange, TOKENS)
    took = time.perf_counter() - began
    await talk.close()
    return took / (len(exchange.words) + len(exchange.reply))


def codec_share(model: CausalLM, bare: CausalLM, state: FusedState) -> float:
    """What a full window adds to a step, as a share: the same tokens, step by step in turn."""
    assert model.codec is not None
    ids, decoders = model.prompt_ids(story(ANIMALS[0])), [model.new_decoder(), bare.new_decoder()]
    decoders[0].inject(model.codec.prepare(state))
    for decoder in decoders:
        logits = decoder.forward(ids, [len(ids) - 1])
    extra, without = [], []
    for step in range(TOKENS + 1):
        token, took = int(logits.argmax()), [0.0, 0.0]
        for one in (0, 1) if step % 2 else (1, 0):
            began = time.perf_counter()
            read = decoders[one].forward([token], [0])
            took[one] = time.perf_counter() - began
            logits = read if one else logits
        extra.append(took[0] - took[1])
        without.append(took[1])
    return statistics.median(extra[1:]) / statistics.median(without[1:])


async def _next_token(stream: AsyncGenerator[Any, None]) -> None:
    async for part in stream:
        if isinstance(part, Token):
            return


async def _rest(stream: AsyncGenerator[Any, None]) -> list[float]:
    """When each of the other tokens came; after the last one the stream goes on to read it."""
    async with aclosing(stream):
        return [time.perf_counter() async for part in stream if isinstance(part, Token)]


async def measure_language_model(
    model: CausalLM, bare: CausalLM, stock: StockModel, rounds: int, sessions: int
) -> LanguageModelFigures:
    """All that is compared, round by round; ``bare`` is the model without its codec."""
    weights = _weights(model, stock)
    state, story_ids = await remembered(model), model.prompt_ids(story(ANIMALS[0]))
    talks, pauses = Talks(model, sessions), Pauses(model)
    goes: dict[str, Go] = {
        **_readings(weights),
        "stock": partial(asyncio.to_thread, stock.step_s, story_ids, TOKENS),
        "step": talks.step_s,
        "together": partial(talks.tokens_per_s, sessions),
        "first": pauses.first_token_s,
    }
    if state is not None:
        goes |= {
            "codec": partial(model.worker.run, codec_share, model, bare, state),
            "segments": partial(segments_s, model),
        }
    values = await interleaved(goes, rounds)
    kv_bytes = await model.worker.run(kept_bytes, model)
    return LanguageModelFigures(values, weights, sessions, kv_bytes, bytes_of(state) if state is not None else 0)


def _weights(model: CausalLM, stock: StockModel) -> rows.Weights:
    from pipeline.backends.lean_llama import LeanDecoder

    if isinstance(model.new_decoder(), LeanDecoder):
        return rows.Weights(stock.int8_bytes, "int8", ONE)
    return rows.Weights(stock.stored_bytes, stock.dtype, GPU if model.device.type == "cuda" else ALL)


def _readings(weights: rows.Weights) -> dict[str, Go]:
    """What reads as many bytes, by the name of the reader."""
    if weights.reader == GPU:
        from clients.machine.stock import GpuReading

        return {GPU: partial(asyncio.to_thread, GpuReading(weights.bytes).bytes_per_s)}
    from clients.machine.bandwidth import Reading

    reading = Reading(weights.bytes)
    return {ONE: partial(asyncio.to_thread, reading.one_core), ALL: partial(asyncio.to_thread, reading.all_cores)}


@dataclass(frozen=True, slots=True)
class LanguageModelFigures:
    """What was measured of a language model: by name, a value a round."""

    values: dict[str, list[float]]
    weights: rows.Weights
    sessions: int
    kv_bytes: int
    state_bytes: int

    def rows(self) -> list[Row]:
        """The rows of the table."""
        values, weights = self.values, self.weights
        told = [rows.bandwidth(values[one], one, weights.bytes) for one in (ONE, ALL, GPU) if one in values]
        told += rows.decode(values["step"], values["stock"], weights, values[weights.reader])
        told.append(rows.batch(values["together"], [1 / step_s for step_s in values["step"]], self.sessions))
        told.append(rows.first_token(values["first"], values["step"]))
        if "codec" in values:
            told += rows.codec(values["codec"], values["segments"])
        return told
