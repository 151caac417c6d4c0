"""Any server of the OpenAI chat completions API as the language model: Ollama, vLLM, llama.cpp, hosted ones.

Drafts and their adoption work as with a model of one's own: a draft is a request, and a dropped draft a request
that is cancelled. Reading ahead does not: a request is read as a whole, so what is gained is the server's prompt
cache at best. The probability that the user is done is not known either, nor is there a hidden state to add to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

from pipeline.ports import (
    ANY_TOOL,
    Exchange,
    InputError,
    Message,
    Prefill,
    Prompt,
    PromptRead,
    StageError,
    Token,
    ToolCall,
)

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

Part = Token | ToolCall | PromptRead
PREFIX = "openai:"
EXAMPLE = "openai:http://127.0.0.1:11434/v1#llama3.2"
CHARACTERS_PER_TOKEN = 4  # of English; the server's tokenizer is not known here
CONNECT_S, STALL_S = 5.0, 20.0


class ChatEndpoint:
    """One model of one server."""

    def __init__(self, source: str, *, key: str = "", temperature: float = 0.0, stall_s: float = STALL_S) -> None:
        """``source`` is ``openai:URL#MODEL``; ``stall_s`` how long nothing may come. Raises InputError."""
        url, self.model = urldefrag(source.removeprefix(PREFIX))
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname or not self.model:
            raise InputError(f"language model {source}: expected something like {EXAMPLE}")
        self.url = url.rstrip("/")
        self.temperature = temperature
        self.stall_s = stall_s
        self._key = key or "none"  # the client insists on one; servers of one's own do not

    def new_memory(self) -> None:
        """None: another server's states cannot be had."""

    def open(self) -> ChatConversation:
        """A conversation with connections of its own."""
        return ChatConversation(self, self._client())

    def count_tokens(self, text: str) -> int:
        """About how many tokens the text is."""
        return -(-len(text) // CHARACTERS_PER_TOKEN)

    def close(self) -> None:
        """There is nothing to free: connections belong to conversations."""

    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, Timeout

        patience = Timeout(self.stall_s, connect=CONNECT_S)
        # Asking again would come too late for a reply that is spoken.
        return AsyncOpenAI(base_url=self.url, api_key=self._key, timeout=patience, max_retries=0)


class ChatConversation:
    """The requests of one conversation. Every one of them holds the whole prompt."""

    text_done: float | None = None
    exchange = None

    def __init__(self, endpoint: ChatEndpoint, client: AsyncOpenAI) -> None:
        self._endpoint = endpoint
        self._client = client

    async def prefill(self, prompt: Prompt) -> Prefill:
        """Does nothing: there is no request for it."""
        return Prefill(0, 0, 0)

    async def generate(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[Part, None]:
        """Stream the reply; closing the generator cancels the request. Raises StageError saying what is wrong."""
        async with self._failing_clearly(), aclosing(self._parts(prompt, max_tokens)) as parts:
            async for part in parts:
                yield part

    async def segments(self, exchange: Exchange, reply_tokens: int) -> tuple[tuple[()], tuple[()]]:
        """None: there are no states to make them of."""
        return (), ()

    async def forget(self) -> None:
        """Nothing is held here."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _parts(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[Part, None]:
        stream: AsyncStream[ChatCompletionChunk] = await self._client.chat.completions.create(
            model=self._endpoint.model,
            max_tokens=max_tokens,
            temperature=self._endpoint.temperature,
            stream=True,
            stream_options={"include_usage": True},
            **chat_request(prompt),
        )
        number, finished, calls = 0, False, _Calls()
        async with stream:
            async for chunk in stream:
                if chunk.usage is not None:
                    details = chunk.usage.prompt_tokens_details
                    yield PromptRead(chunk.usage.prompt_tokens, (details and details.cached_tokens) or 0)
                for choice in chunk.choices:
                    finished = finished or choice.finish_reason is not None
                    calls.push(choice.delta.tool_calls or [])
                    if choice.delta.content:
                        yield Token(number, choice.delta.content)
                        number += 1
        if not finished:
            raise StageError("language model", f"{self._endpoint.url} broke off in the middle of its reply")
        for call in calls.finish():
            yield call

    @asynccontextmanager
    async def _failing_clearly(self) -> AsyncIterator[None]:
        """Whatever the server or the way to it does, the turn fails with a sentence that says so."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError

        url = self._endpoint.url
        try:
            yield
        except APITimeoutError as error:
            raise StageError("language model", f"{url} said nothing for {self._endpoint.stall_s:g} s") from error
        except APIConnectionError as error:
            why = f"{url} cannot be reached, or broke off ({error.__cause__ or error}); is it running?"
            raise StageError("language model", why) from error
        except APIStatusError as error:
            raise StageError("language model", self._refusal(error)) from error
        except (OpenAIError, ValueError) as error:
            raise StageError("language model", f"{url} sent what is no chat completion: {error}") from error

    def _refusal(self, error: APIStatusError) -> str:
        url, model = self._endpoint.url, self._endpoint.model
        match error.status_code:
            case 401 | 403:
                return f"{url} does not accept the key: set OPENAI_API_KEY"
            case 404:
                return f"{url} has no model {model!r}, or is no chat endpoint ({error.message})"
            case 429:
                return f"{url} takes no more requests now ({error.message})"
            case status:
                return f"{url} refused with status {status}: {error.message}"


class _Calls:
    """Calls of tools, which come in pieces like all else."""

    def __init__(self) -> None:
        self._calls: dict[int, ToolCall] = {}

    def push(self, pieces: Iterable[ChoiceDeltaToolCall]) -> None:
        for piece in pieces:
            made = self._calls.get(piece.index, ToolCall("", "", ""))
            name = (piece.function and piece.function.name) or ""
            arguments = (piece.function and piece.function.arguments) or ""
            self._calls[piece.index] = ToolCall(
                made.id or piece.id or "", made.name + name, made.arguments + arguments
            )

    def finish(self) -> list[ToolCall]:
        return [call for _, call in sorted(self._calls.items()) if call.name]


def chat_request(prompt: Prompt) -> dict[str, Any]:
    """The prompt as this API wants it: messages, and tools where there are any."""
    request: dict[str, Any] = {"messages": [_chat_message(message) for message in prompt.messages]}
    if prompt.tools:
        request["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in prompt.tools
        ]
        named = {"type": "function", "function": {"name": prompt.must_call}}
        request["tool_choice"] = {"": "auto", ANY_TOOL: ANY_TOOL}.get(prompt.must_call, named)
    return request


def _chat_message(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        made["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.role == "tool":
        made["tool_call_id"] = message.call_id
    return made
