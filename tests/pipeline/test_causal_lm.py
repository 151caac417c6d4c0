"""The language model's cache: whichever way a prompt comes in, the reply is the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipeline.backends.batching import Limits
from pipeline.backends.causal_lm import CausalLM
from pipeline.ports import InputError, Message, Prompt, PromptRead, Token, Tool, ToolCall
from pipeline.store import Store

pytestmark = pytest.mark.models

SYSTEM = Message("system", "You are a friendly voice assistant. Answer in one short sentence.")


@pytest.fixture(scope="module")
def lm() -> Iterator[CausalLM]:
    loaded = CausalLM(Store.default().path("smollm2-135m-instruct"))
    yield loaded
    loaded.close()


def asked(text: str, *, open: bool = False) -> Prompt:
    return Prompt((SYSTEM, Message("user", text)), open=open)


async def reply(conversation, prompt: Prompt, most: int = 16) -> list[int]:
    return [part.id async for part in conversation.generate(prompt, most) if isinstance(part, Token)]


async def test_reading_ahead_word_by_word_changes_no_token(lm: CausalLM) -> None:
    ahead, cold = lm.open(), lm.open()
    for words in ("What", "What is the", "What is the capital of", "What is the capital of Italy"):
        await ahead.prefill(asked(words, open=True))
    question = asked("What is the capital of Italy?")
    assert await reply(ahead, question) == await reply(cold, question)


LONG = asked("Tell me more about the sea, " + "and of the sky above it, and of the ships upon it, " * 24)


async def test_reading_a_long_prompt_in_parts_changes_no_token(
    lm: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_parts = await reply(lm.open(), LONG)
    monkeypatch.setattr(lm.steps, "limits", Limits(1, 10_000))
    assert await reply(lm.open(), LONG) == in_parts


async def test_a_long_prompt_holds_up_nobody_elses_tokens(lm: CausalLM) -> None:
    order: list[str] = []
    ours, theirs = lm.open(), lm.open()
    answer = theirs.generate(asked("Count to five."), 4)
    await anext(answer)

    async def read() -> None:
        assert (await ours.prefill(LONG)).computed == len(lm.prompt_ids(LONG))
        order.append("read")

    async def speak() -> None:
        order.extend([token.text for _ in range(3) if (token := await anext(answer))])

    await asyncio.gather(read(), speak())
    assert order[-1] == "read"


async def test_a_dropped_draft_changes_no_token(lm: CausalLM) -> None:
    drafted, cold = lm.open(), lm.open()
    await reply(drafted, asked("Give me"))
    question = asked("Give me a word that rhymes with house")
    assert await reply(drafted, question) == await reply(cold, question)


async def test_a_draft_given_up_in_mid_token_changes_no_token(lm: CausalLM) -> None:
    drafted, cold = lm.open(), lm.open()
    stream = drafted.generate(asked("Tell me a story"), 50)
    await anext(stream)
    await stream.aclose()
    question = asked("Tell me a joke")
    assert await reply(drafted, question) == await reply(cold, question)


async def test_reading_ahead_leaves_little_to_do_at_the_pause(lm: CausalLM) -> None:
    conversation = lm.open()
    await conversation.prefill(asked("How many days are there in the month of", open=True))
    done = await conversation.prefill(asked("How many days are there in the month of May?"))
    assert done.cropped == 0
    assert done.kept > 2 * done.computed


async def test_words_taken_back_are_cropped(lm: CausalLM) -> None:
    conversation = lm.open()
    await conversation.prefill(asked("I want a dog and a cat please", open=True))
    done = await conversation.prefill(asked("I want a dark roast coffee", open=True))
    assert done.cropped > 0


async def test_conversations_do_not_see_each_other(lm: CausalLM) -> None:
    ours, theirs = lm.open(), lm.open()
    await reply(theirs, asked("My name is Grace. What is my name?"))
    question = asked("What is your name?")
    assert await reply(ours, question) == await reply(lm.open(), question)


async def test_a_finished_question_closes_better_than_a_broken_off_one(lm: CausalLM) -> None:
    conversation = lm.open()
    await reply(conversation, asked("What is the capital of Italy?"), 1)
    finished = conversation.text_done
    await reply(conversation, asked("What is the capital of the"), 1)
    assert conversation.text_done < finished


async def test_text_of_the_tokens_is_the_text_of_the_reply(lm: CausalLM) -> None:
    parts = [part async for part in lm.open().generate(asked("Count to five."), 24)]
    tokens = [part for part in parts if isinstance(part, Token)]
    whole = lm.tokenizer.decode([token.id for token in tokens], skip_special_tokens=True)
    assert "".join(token.text for token in tokens) == whole


def test_a_model_that_does_not_exist_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        CausalLM(tmp_path / "nowhere")


async def test_what_was_read_ahead_counts_as_cached(lm: CausalLM) -> None:
    conversation = lm.open()
    await conversation.prefill(asked("How many days are there in the month of", open=True))
    read = await anext(conversation.generate(asked("How many days are there in the month of May?"), 1))
    assert isinstance(read, PromptRead)
    assert 0 < read.tokens - read.cached < read.cached


async def test_even_a_small_model_can_be_made_to_call_a_tool(lm: CausalLM) -> None:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather = Tool("get_weather", "Tells the weather in a city.", city)
    prompt = replace(asked("What is the weather in Paris?"), tools=(weather,), must_call="get_weather")
    calls = [part async for part in lm.open().generate(prompt, 60) if isinstance(part, ToolCall)]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("get_weather", {"city": "Paris"})]
