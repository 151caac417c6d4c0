"""Any server of the OpenAI chat completions API as the language model: Ollama, vLLM, llama.cpp, hosted ones.

Drafts and their adoption work as with a model of one's own: a draft is a request, and a dropped draft a request
that is cancelled. Reading ahead does not: a request is read as a whole, so what is gained is the server's prompt
cache at best. The probability that the user is done is not known either, nor is there a hidden state to add to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

from pipeline.ports import Exchange, InputError, Prefill, Prompt, StageError, Token

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

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

    async def generate(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[Token, None]:
        """Stream the reply; closing the generator cancels the request. Raises StageError saying what is wrong."""
        async with self._failing_clearly(), aclosing(self._deltas(prompt, max_tokens)) as deltas:
            number = 0
            async for text in deltas:
                yield Token(number, text)
                number += 1

    async def segments(self, exchange: Exchange, reply_tokens: int) -> tuple[tuple[()], tuple[()]]:
        """None: there are no states to make them of."""
        return (), ()

    async def forget(self) -> None:
        """Nothing is held here."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _deltas(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[str, None]:
        messages: Any = [{"role": message.role, "content": message.text} for message in prompt.messages]
        stream = await self._client.chat.completions.create(
            model=self._endpoint.model,
            messages=messages,
            max_tokens=max_tokens,
            temperature=self._endpoint.temperature,
            stream=True,
        )
        finished = False
        async with stream:
            async for chunk in stream:
                for choice in chunk.choices:
                    finished = finished or choice.finish_reason is not None
                    if choice.delta.content:
                        yield choice.delta.content
        if not finished:
            raise StageError("language model", f"{self._endpoint.url} broke off in the middle of its reply")

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
