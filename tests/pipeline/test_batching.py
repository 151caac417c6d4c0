"""Steps: everybody who is ready reads on, each to the bits it would have alone, and nobody waits for anybody."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.backends.batching import TOGETHER, Steps, shares
from pipeline.backends.cached_sequence import CachedSequence
from pipeline.backends.decoders import Piece
from pipeline.backends.guesses import Guesses
from pipeline.backends.injection import LeanInjection
from pipeline.backends.lean_llama import LeanDecoder, LeanLlama
from pipeline.backends.readers import LEAD_TOKENS, PromptReader, ReplyReader
from pipeline.worker import Worker
from tests.pipeline.tiny_llama import a_state, tiny_codec, tiny_llama

LEAN = LeanLlama.of(tiny_llama())
INJECTION = LeanInjection(LEAN, tiny_codec(), 3)
BEGIN = 2  # where the last message begins, and with it the state
STOP_IDS = frozenset({7})


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("test")
    yield made
    made.close()


@pytest.fixture
def steps(worker: Worker) -> Steps:
    return Steps(worker, LEAN.forward)


def opened(*, state: bool = False) -> CachedSequence:
    sequence = CachedSequence(INJECTION.open)
    if state:
        sequence.enter_message(BEGIN, a_state(), lambda: INJECTION.prepare(a_state()))
    return sequence


def alone(prompt: list[int], most: int, *, state: bool = False) -> tuple[list[int], LeanDecoder]:
    """The reply token by token, with nobody else in any step."""
    decoder = INJECTION.open()
    for place, token in enumerate(prompt):
        if state and place == BEGIN:
            decoder.inject(INJECTION.prepare(a_state()))
        logits = decoder.forward([token], [0])
    reply: list[int] = []
    while (token := int(logits.argmax())) not in STOP_IDS and len(reply) < most:
        reply.append(token)
        logits = decoder.forward([token], [0])
    return reply, decoder


def same_cache(ours: CachedSequence, theirs: LeanDecoder) -> bool:
    """Whether all keys and values of the tokens are the same bits."""
    decoder = ours.decoder
    assert isinstance(decoder, LeanDecoder)
    until = decoder.room + theirs.length
    return decoder.length == theirs.length and all(
        np.array_equal(one[:, :, :until], other[:, :, :until])
        for one, other in ((decoder.keys, theirs.keys), (decoder.values, theirs.values))
    )


@dataclass
class Visit:
    """A prompt that joins before a step, and leaves behind so many tokens of its reply."""

    prompt: list[int]
    joins_at: int
    most: int
    state: bool
    said: list[int] = field(default_factory=list)


VISITS = st.builds(
    Visit,
    st.lists(st.integers(0, 100), min_size=BEGIN + 1, max_size=2 * TOGETHER.prompt_tokens),
    st.integers(0, 6),
    st.integers(0, 8),
    st.booleans(),
)


class Oracle(Guesses):
    """Guesses with what ``alone`` says, every so often; otherwise wrong."""

    def __init__(self, replies: list[list[int]], right: float) -> None:
        super().__init__({}, 0)
        self._replies, self._right, self._drawn = replies, right, random.Random(0)

    def after(self, ids: Sequence[int], most: int) -> list[int]:
        most = min(most, 3)
        known = next((each for each in self._replies if each[: len(ids)] == list(ids)), [])
        wrong = [self._drawn.randrange(128) for _ in range(most)]
        return known[len(ids) :][:most] if self._drawn.random() < self._right else wrong


@settings(max_examples=60, deadline=None)
@given(st.lists(VISITS, min_size=1, max_size=9), st.floats(0, 1))
def test_a_reply_is_the_same_bits_whoever_joins_or_leaves_and_whatever_is_guessed(
    visits: list[Visit], right: float
) -> None:
    steps, readers = Steps(None, LEAN.forward), []  # type: ignore[arg-type]  # no thread: step by step
    sequences = [opened(state=one.state) for one in visits]
    replies = [alone(one.prompt, one.most, state=one.state) for one in visits]
    guesses = Oracle([[*one.prompt, *said] for one, (said, _) in zip(visits, replies, strict=True)], right)
    with ExitStack() as stack:
        for number in range(400):
            for visit, sequence in zip(visits, sequences, strict=True):
                if visit.joins_at == number:
                    reader = ReplyReader(sequence, visit.prompt, STOP_IDS, visit.most, guesses)
                    readers.append((visit, reader))
                    stack.enter_context(steps.joined(reader))
            steps.step()
            for visit, reader in readers:
                visit.said += [reader.made.popleft() for _ in range(len(reader.made))]
    for visit, sequence, (reply, decoder) in zip(visits, sequences, replies, strict=True):
        assert visit.said == reply
        assert same_cache(sequence, decoder)


@dataclass(eq=False)
class Waiting:
    """A reader of which only the schedule is of interest."""

    due: int
    served: int = 0
    guessed: int = 0


def test_no_reply_waits_for_a_prompt() -> None:
    prompts, replies = [Waiting(1000), Waiting(50)], [Waiting(1, served=9) for _ in range(8)]
    assert {
        one: count for one, count in shares([*prompts, *replies], TOGETHER) if one in replies
    } == dict.fromkeys(replies, 1)


def test_guesses_are_read_only_where_nobody_else_reads() -> None:
    guessing, other = Waiting(4, guessed=3), Waiting(1)
    assert shares([guessing], TOGETHER) == [(guessing, 4)]
    assert sorted(count for _, count in shares([guessing, other], TOGETHER)) == [1, 1]


def test_right_guesses_save_steps() -> None:
    said, _ = alone([1, 2, 3], 8)
    reader = ReplyReader(opened(), [1, 2, 3], STOP_IDS, 8, Oracle([[1, 2, 3, *said]], right=1))
    steps, taken = Steps(None, LEAN.forward), 0  # type: ignore[arg-type]  # no thread: step by step
    with steps.joined(reader):
        while not reader.ready:
            steps.step()
            reader.made.clear()
            taken += 1
    assert taken <= len(said) // 4 + 2


def test_a_step_reads_only_so_much_of_prompts_and_a_short_one_leaves_the_rest_to_the_next() -> None:
    short, long = Waiting(5), Waiting(1000)
    assert shares([short, long], TOGETHER) == [(short, 5), (long, TOGETHER.prompt_tokens - 5)]


@given(st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_everybody_has_a_turn(due: list[int]) -> None:
    readers = [Waiting(tokens) for tokens in due]
    for number in range(1, len(readers) + 1):
        for one, _ in shares(readers, TOGETHER):
            one.served = number
    assert all(one.served for one in readers)


def test_more_replies_than_a_step_takes_have_turns_of_the_same_length() -> None:
    readers, turns = [Waiting(1) for _ in range(2 * TOGETHER.replies)], []
    for number in range(1, 5):
        turns.append([one for one, _ in shares(readers, TOGETHER)])
        for one in turns[-1]:
            one.served = number
    assert turns[0] == turns[2]
    assert turns[1] == turns[3]
    assert not set(turns[0]) & set(turns[1])


def test_a_reply_nobody_takes_goes_no_further_than_its_lead(steps: Steps) -> None:
    slow, quick = (ReplyReader(opened(), [3, 14, 15, one], frozenset(), 20) for one in (92, 65))
    with steps.joined(slow), steps.joined(quick):
        for _ in range(8):
            steps.step()
            quick.made.clear()
    assert len(slow.made) == LEAD_TOKENS


async def read(steps: Steps, reader: ReplyReader) -> list[int]:
    said: list[int] = []
    with steps.joined(reader):
        await steps.advance(reader)
        while reader.made:
            said.append(reader.made.popleft())
            await steps.advance(reader)
    return said


async def test_readers_of_one_model_share_its_steps(worker: Worker) -> None:
    sizes: list[int] = []

    def counted(pieces: Sequence[Piece[Any]]) -> list[torch.Tensor]:
        sizes.append(len(pieces))
        return LEAN.forward(pieces)

    steps, prompts = Steps(worker, counted), [[3, 14, 15, 20 + one] for one in range(8)]
    await asyncio.gather(*(read(steps, ReplyReader(opened(), one, frozenset(), 20)) for one in prompts))
    assert sum(sizes) >= 8 * 20
    assert len(sizes) < 2 * 21


async def test_one_who_leaves_in_mid_reply_changes_nothing_for_the_others(steps: Steps) -> None:
    prompts = [[3, 14, 15, one] for one in (92, 65, 35)]
    first, gone, last = (
        asyncio.create_task(read(steps, ReplyReader(opened(), one, STOP_IDS, 12))) for one in prompts
    )
    await asyncio.sleep(0)
    gone.cancel()
    assert [await first, await last] == [alone(prompts[0], 12)[0], alone(prompts[2], 12)[0]]
    assert gone.cancelled()


async def test_what_breaks_one_reader_breaks_nobody_else(steps: Steps) -> None:
    class Broken(LeanDecoder):
        def make_room(self, tokens: int) -> None:
            if self.length > 6:
                raise MemoryError("no room for more keys")
            super().make_room(tokens)

    sick = ReplyReader(CachedSequence(lambda: Broken(LEAN, INJECTION.open().room, 1)), [3, 1], frozenset(), 12)
    sound = ReplyReader(opened(), [3, 14, 15, 92], STOP_IDS, 12)
    _, said = await asyncio.gather(read(steps, sick), read(steps, sound))
    assert str(sick.failure) == "language model: MemoryError: no room for more keys"
    assert said == alone([3, 14, 15, 92], 12)[0]


async def test_of_a_closed_conversation_nothing_more_is_read(steps: Steps) -> None:
    sequence = opened()
    reader = PromptReader(sequence, [3, 14, 15])
    sequence.close()
    with steps.joined(reader):
        await steps.advance(reader)
    assert "the conversation is closed" in str(reader.failure)
    assert not sequence.ids
