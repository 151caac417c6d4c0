"""Respond: transcript and memory to a stream of words and sound. Drafts are prepared here, never visible."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from pipeline.channel import Channel, ChannelClosed
from pipeline.frames import SpokenAudio
from pipeline.ports import Conversation, Exchange, Prompt, PromptRead, StageError, Token, ToolCall
from pipeline.speak import SpeechLink
from pipeline.speech_context import SpeechContext
from pipeline.timing import Clock, Mark, TurnRecord

if TYPE_CHECKING:
    from codec.window import SegmentState

    Segments = tuple[SegmentState, ...]

log = logging.getLogger(__name__)

# A reply may be made this far ahead of its being heard: minutes of speech are a bound, not a plan.
MADE_AHEAD_MS = 60_000.0


class Responder:
    """The language model's side of one conversation: reads ahead, drafts, and keeps the two apart."""

    def __init__(self, conversation: Conversation, max_tokens: int) -> None:
        self._conversation = conversation
        self._max_tokens = max_tokens
        self._reading = asyncio.Lock()

    async def read_ahead(self, prompt: Prompt, record: TurnRecord | None) -> Segments:
        """Prefill the history and what the user has said so far; does nothing while a draft has the model.

        Returns what the user has said, as segments.
        """
        if self._reading.locked():
            return ()
        async with self._reading:
            done = await self._conversation.prefill(prompt)
        if record is not None:
            record.prefilled_tokens += done.computed
            record.cropped_tokens += done.cropped
        return done.said

    async def generate(
        self,
        prompt: Prompt,
        max_tokens: int,
        on_first: Callable[[float | None], None],
        on_last: Callable[[Exchange | None], None],
    ) -> AsyncIterator[Token | ToolCall | PromptRead]:
        """The reply as it is generated; ``on_first`` gets the model's verdict on the user's being done.

        ``on_last`` gets the states of message and reply, however it ends. ``max_tokens`` lowers the configured
        limit; 0 leaves it.
        """
        most = min(max_tokens or self._max_tokens, self._max_tokens)
        async with self._reading:
            stream = self._conversation.generate(prompt, most)
            try:
                first = True
                async for part in stream:
                    if first:
                        on_first(self._conversation.text_done)
                        first = False
                    yield part
            finally:
                await stream.aclose()
                on_last(self._conversation.exchange)

    async def segments(self, reply: PreparedReply, heard: str) -> tuple[Segments, Segments]:
        """The turn's message, and what was heard of its reply; nothing where the model has no codec."""
        if reply.exchange is None:
            return (), ()
        try:
            async with self._reading:
                return await self._conversation.segments(reply.exchange, reply.tokens_within(heard))
        except StageError as error:
            log.warning("the turn leaves no state: %s", error)
            return (), ()

    async def forget(self) -> None:
        """The model overwrites what it holds of what was said."""
        try:
            async with self._reading:
                await self._conversation.forget()
        except StageError as error:
            log.warning("the model's cache was dropped: %s", error)

    async def close(self) -> None:
        """Free the model's memory of the conversation."""
        await self._conversation.close()


class PreparedReply:
    """A reply in the making. Nothing of it can be reached from outside before ``commit`` hands out the Reply.

    ``prepare`` does the work and never raises StageError: a failed stage is kept until somebody wants the reply.
    """

    def __init__(self, prompt: Prompt, record: TurnRecord, clock: Clock, max_tokens: int = 0) -> None:
        self.prompt = prompt
        self.read: PromptRead | None = None
        self.text_done: float | None = None
        self.tokens = 0
        self.exchange: Exchange | None = None
        self.something_ready = asyncio.Event()  # the first audio is made, or there is none to wait for
        self.verdict_ready = asyncio.Event()
        self._record = record
        self._clock = clock
        self._max_tokens = max_tokens
        self._said: list[str | ToolCall] = []
        self._more_said = asyncio.Event()
        self._pieces: Channel[SpokenAudio] = Channel("reply", MADE_AHEAD_MS, size=lambda piece: piece.duration_ms)
        self._failure: StageError | None = None
        self._finished = False
        self._reply: Reply | None = None

    async def prepare(self, responder: Responder, link: SpeechLink | None, name: str, speed: float = 1.0) -> None:
        """Generate the reply and, given a link, have it spoken, up to the limit of what may be made ahead."""
        context: SpeechContext | None = None
        try:
            if link is not None:
                context = await link.open(name, speed)
            async with asyncio.TaskGroup() as stages:
                stages.create_task(self._generate(responder, context))
                if context is not None:
                    stages.create_task(self._collect(context))
        except* StageError as failed:
            self._failure = stage_error_in(failed)
        finally:
            self._finished = True
            self._more_said.set()
            self.verdict_ready.set()
            self.something_ready.set()
            await self._pieces.close()
            if context is not None:
                await context.cancel()

    def commit(self) -> Reply:
        """The draft is the reply: from here on it may be shown, heard and remembered."""
        if self._reply is not None:
            raise AssertionError("a draft is committed once")
        self._reply = Reply(self)
        return self._reply

    def tokens_within(self, heard: str) -> int:
        """How many tokens of the reply make up what was heard of it."""
        lengths = accumulate(len(part) for part in self._said if isinstance(part, str))
        return sum(length <= len(heard) for length in lengths)

    async def _generate(self, responder: Responder, context: SpeechContext | None) -> None:
        async for part in responder.generate(self.prompt, self._max_tokens, self._first_token, self._last_token):
            match part:
                case Token(text=text):
                    self.tokens += 1
                    await self._say(text, context)
                case ToolCall():
                    self._say_no_words(part)
                case PromptRead():
                    self.read = part
        if context is not None:
            await context.finish()

    async def _say(self, text: str, context: SpeechContext | None) -> None:
        self._said.append(text)
        self._more_said.set()
        if context is None:
            self.something_ready.set()
        else:
            await context.say(text)

    def _say_no_words(self, call: ToolCall) -> None:
        self._said.append(call)
        self._more_said.set()
        self.something_ready.set()

    async def _collect(self, context: SpeechContext) -> None:
        async for piece in context.audio():
            if not self.something_ready.is_set():
                if context.first_phrase_at is not None:
                    self._record.mark(Mark.FIRST_PHRASE, context.first_phrase_at)
                self._record.mark(Mark.FIRST_AUDIO_MADE, self._clock())
                self.something_ready.set()
            await self._pieces.send(piece)

    def _first_token(self, text_done: float | None) -> None:
        self._record.mark(Mark.FIRST_TOKEN, self._clock())
        self.text_done = text_done
        self.verdict_ready.set()

    def _last_token(self, exchange: Exchange | None) -> None:
        self.exchange = exchange


def stage_error_in(group: BaseExceptionGroup[BaseException]) -> StageError:
    """The first stage error of a group; anything else in it is a bug and is raised."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if not isinstance(first, StageError):
        raise first
    return first


class Reply:
    """A committed draft: its text, its sound, its failure."""

    def __init__(self, draft: PreparedReply) -> None:
        self._draft = draft

    @property
    def text(self) -> str:
        """The reply so far, as the model wrote it."""
        return "".join(part for part in self._draft._said if isinstance(part, str))

    @property
    def cut_short(self) -> bool:
        """Whether the limit that was asked for ended it."""
        return 0 < self._draft._max_tokens <= self._draft.tokens

    async def parts(self) -> AsyncIterator[str | ToolCall]:
        """The words and calls as they come, from the beginning. Raises StageError where the model failed."""
        draft, shown = self._draft, 0
        while True:
            draft._more_said.clear()
            new = draft._said[shown:]
            shown += len(new)
            for of_words, parts in groupby(new, lambda part: isinstance(part, str)):
                if of_words:
                    yield "".join(str(part) for part in parts)
                else:
                    for call in parts:
                        yield call
            if not new:
                if draft._finished:
                    break
                await draft._more_said.wait()
        if draft._failure is not None:
            raise draft._failure

    async def audio(self) -> AsyncGenerator[SpokenAudio, None]:
        """The sound as it is made, from its beginning. Raises StageError where it broke off."""
        while True:
            try:
                yield await self._draft._pieces.receive()
            except ChannelClosed:
                break
        if self._draft._failure is not None:
            raise self._draft._failure
