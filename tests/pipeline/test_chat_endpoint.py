"""A chat endpoint as the language model, against a real HTTP server that answers well or badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from pipeline.backends.chat_endpoint import ChatConversation, ChatEndpoint
from pipeline.ports import InputError, Message, Prompt, StageError
from tests.pipeline.chat_server import KEY, WORDS, ChatServer, chat_server

PROMPT = Prompt((Message("system", "Be brief."), Message("user", "What is five and five?")))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


@asynccontextmanager
async def talking(
    url: str, model: str = "words", key: str = KEY, stall_s: float = 5
) -> AsyncIterator[ChatConversation]:
    conversation = ChatEndpoint(f"openai:{url}#{model}", key=key, stall_s=stall_s).open()
    yield conversation
    await conversation.close()


async def reply(conversation: ChatConversation) -> list[str]:
    return [token.text async for token in conversation.generate(PROMPT, 30)]


async def test_the_reply_comes_word_by_word_as_the_server_sends_it(server: ChatServer) -> None:
    async with talking(server.url) as conversation:
        assert await reply(conversation) == list(WORDS)
    asked = server.requests[0]
    assert asked["path"] == "/v1/chat/completions"
    assert asked["messages"][1] == {"role": "user", "content": "What is five and five?"}
    assert (asked["max_tokens"], asked["temperature"], asked["stream"]) == (30, 0.0, True)


async def test_a_draft_that_is_dropped_is_a_request_that_is_cancelled(server: ChatServer) -> None:
    async with talking(server.url, "endless") as conversation:
        draft = conversation.generate(PROMPT, 30)
        await anext(draft)
        await draft.aclose()
        assert await asyncio.to_thread(server.abandoned.wait, 10)


async def test_after_a_dropped_draft_the_next_one_is_answered(server: ChatServer) -> None:
    async with talking(server.url) as conversation:
        draft = conversation.generate(PROMPT, 30)
        await anext(draft)
        await draft.aclose()
        assert await reply(conversation) == list(WORDS)


@pytest.mark.parametrize(
    ("model", "key", "told"),
    [
        ("words", "wrong", "does not accept the key: set OPENAI_API_KEY"),
        ("missing", KEY, "has no model 'missing'"),
        ("cut", KEY, "broke off in the middle"),
        ("stalled", KEY, r"said nothing for 0\.2 s"),
        ("garbage", KEY, "sent what is no chat completion"),
    ],
)
async def test_what_goes_wrong_is_told_clearly(server: ChatServer, model: str, key: str, told: str) -> None:
    async with talking(server.url, model, key, stall_s=0.2) as conversation:
        with pytest.raises(StageError, match=f"language model: {server.url} {told}"):
            await reply(conversation)


async def test_a_server_that_is_not_there_is_told_clearly() -> None:
    async with talking("http://127.0.0.1:9/v1") as conversation:
        with pytest.raises(StageError, match=r"http://127\.0\.0\.1:9/v1 cannot be reached"):
            await reply(conversation)


@pytest.mark.parametrize("source", ["openai:", "openai:http://127.0.0.1/v1", "openai:ftp://x#m", "openai:#m"])
def test_an_address_without_a_server_or_a_model_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="expected something like openai:http"):
        ChatEndpoint(source)


def test_tokens_are_estimated() -> None:
    endpoint = ChatEndpoint("openai:http://127.0.0.1/v1#m")
    assert [endpoint.count_tokens(text) for text in ("", "four", "fives")] == [0, 1, 2]
