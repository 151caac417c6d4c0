"""One conversation with a decoder-only model, which only ever does new work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pipeline.backends.cached_sequence import CachedSequence
from pipeline.backends.readers import PromptReader, ReplyReader
from pipeline.backends.tool_calls import ToolCallReader, forced_beginning
from pipeline.ports import Exchange, Prefill, Prompt, PromptRead, StageError, Token, ToolCall

if TYPE_CHECKING:
    import torch

    from codec.window import FusedState, SegmentState
    from pipeline.backends.causal_lm import CausalLM

P = ParamSpec("P")
R = TypeVar("R")


class CausalConversation:
    """The port's side of a cached sequence: prompts in, tokens out, through the steps that all sequences share."""

    def __init__(self, lm: CausalLM) -> None:
        self._lm = lm
        self._sequence = CachedSequence(lm.new_decoder)
        self._text_done: float | None = None

    @property
    def cached_ids(self) -> tuple[int, ...]:
        """The tokens whose keys and values are held."""
        return tuple(self._sequence.ids)

    async def prefill(self, prompt: Prompt) -> Prefill:
        """Bring the cache to the settled part of the prompt. Raises StageError if the model fails."""
        reader, done = await self._run(self._plan_prefill, prompt)
        with self._lm.steps.joined(reader):
            await self._advance(reader)
        if not prompt.open or self._lm.codec is None:
            return done
        return replace(done, said=await self._run(self._sequence.message.said, self._lm.codec))

    async def generate(
        self, prompt: Prompt, max_tokens: int
    ) -> AsyncGenerator[Token | ToolCall | PromptRead, None]:
        """Stream the greedy reply.

        The cache holds the prompt and the reply afterwards, and a few tokens more than were taken of it.
        Raises StageError if the model fails, or writes a call that is none.
        """
        calls_read = ToolCallReader(prompt.tools, forced_beginning(prompt.must_call, prompt.tools))
        reader, read = await self._run(self._plan_reply, prompt, max_tokens)
        reply: list[int] = []
        shown = ""
        with self._lm.steps.joined(reader):
            await self._advance(reader)
            yield read
            while reader.made:
                reply.append(reader.made.popleft())
                text = self._lm.tokenizer.decode(reply, skip_special_tokens=True)
                added = "" if text.endswith("\ufffd") else text[len(shown) :]
                shown += added
                words, calls = calls_read.push(added)
                yield Token(reply[-1], words)
                for call in calls:
                    yield call
                if calls and prompt.must_call:
                    return
                await self._advance(reader)
        words, calls = calls_read.finish()
        if words:
            yield Token(reply[-1], words)
        for call in calls:
            yield call

    @property
    def text_done(self) -> float | None:
        """The probability that a sentence ends where the user stopped; it costs nothing to know."""
        return self._text_done

    @property
    def exchange(self) -> Exchange | None:
        """The hidden states of the last message and of the reply so far."""
        return self._sequence.message.exchange()

    async def segments(
        self, exchange: Exchange, reply_tokens: int
    ) -> tuple[tuple[SegmentState, ...], tuple[SegmentState, ...]]:
        """The message as segments, and the first so many tokens of the reply."""
        run, codec = self._lm.worker.run, self._lm.codec
        if codec is None:
            return (), ()
        return await run(codec.segments, exchange.words), await run(codec.segments, exchange.reply[:reply_tokens])

    async def forget(self) -> None:
        """Overwrite the last message, the reply, the state they were read with, and what was made of them."""
        await self._run(self._sequence.forget)
        self._text_done = None

    async def close(self) -> None:
        """Free the cache."""
        self._sequence.close()

    async def _advance(self, reader: PromptReader) -> None:
        await self._lm.steps.advance(reader)
        if reader.failure is not None:
            raise reader.failure

    async def _run(self, job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._lm.worker.run(self._guarded, partial(job, *args, **kwargs))

    def _guarded(self, job: Callable[[], R]) -> R:
        try:
            return job()
        except Exception as error:
            self._sequence.reset()
            raise StageError("language model", f"{type(error).__name__}: {error}") from error

    def _plan_prefill(self, prompt: Prompt) -> tuple[PromptReader, Prefill]:
        """The settled prompt on its way in, and what that comes to."""
        ids, begin, _ = self._lm.tokens(prompt)
        held = len(self._sequence.ids)
        self._enter_message(begin, prompt.state)
        kept = self._sequence.keep_prefix(ids)
        return PromptReader(self._sequence, ids), Prefill(kept, held - kept, len(ids) - kept)

    def _plan_reply(self, prompt: Prompt, max_tokens: int) -> tuple[ReplyReader, PromptRead]:
        """The prompt and its reply on their way; they tell how likely a sentence ended where the user stopped."""
        ids, begin, spoken = self._lm.tokens(prompt)
        words_end = len(ids) if spoken is None else spoken
        self._enter_message(begin, prompt.state)
        kept = self._sequence.keep_prefix(ids[: words_end - 1])
        self._sequence.message.reply_from(words_end, len(ids))
        self._text_done = None
        reader = ReplyReader(self._sequence, ids, self._lm.stop_ids, max_tokens, self._lm.guesses)
        if spoken is not None:
            reader.watch(spoken - 1, self._judge)
        return reader, PromptRead(len(ids), kept)

    def _enter_message(self, begin: int, state: FusedState | None) -> None:
        codec = self._lm.codec
        self._sequence.enter_message(begin, state, lambda: codec.prepare(state) if codec else None)

    def _judge(self, logits: torch.Tensor) -> None:
        self._text_done = float(logits.softmax(-1)[self._lm.closing_ids].sum())
