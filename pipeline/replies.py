"""Replies: the drafts and replies of one conversation, from their making to what is remembered of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import replace

from pipeline.actions import Draft
from pipeline.events import ReplyStarted, ReplyStatus, TurnClosed
from pipeline.history import prompt_of, reply_key
from pipeline.memory import Memory
from pipeline.playback import Playback
from pipeline.ports import Message, Prompt, StageError, ToolCall
from pipeline.replying import Emit, Replying, WayOut
from pipeline.requests import ReplyRequest
from pipeline.respond import PreparedReply, Responder, stage_error_in
from pipeline.timing import Clock, TurnRecord

MOST_TRUNCATABLE = 50  # replies whose word times are kept: a client truncates the last one, seldom an older one


class Replies:
    """What is being answered. The tasks are the session's; who may answer is the TurnKeeper's business."""

    def __init__(self, responder: Responder, memory: Memory, clock: Clock, emit: Emit) -> None:
        self.defaults = ReplyRequest()  # for turns that nobody asked to have answered in a certain way
        self._responder = responder
        self._memory, self._history = memory, memory.history
        self._clock = clock
        self._emit = emit
        self._running: dict[int, Replying] = {}
        self._requests: dict[int, ReplyRequest] = {}
        self._last_said = ""
        self._over: OrderedDict[int, tuple[Playback, str]] = OrderedDict()

    def get(self, turn: int) -> Replying | None:
        """The turn's draft or reply, if there is one."""
        return self._running.get(turn)

    def turns(self) -> list[int]:
        """The turns that are being answered."""
        return list(self._running)

    def ask(self, turn: int, request: ReplyRequest) -> None:
        """The turn is to be answered like this."""
        self._requests[turn] = request

    def said(self) -> str:
        """The words of the latest reply that can be in the air."""
        announced = [reply for reply in self._running.values() if reply.announced]
        return announced[-1].said_text() if announced else self._last_said

    def request(self, turn: int) -> ReplyRequest:
        """How the turn is to be answered."""
        return self._requests.get(turn, self.defaults)

    def turn_of(self, key: str) -> int:
        """The turn that answers the request of this key; 0 if there is none."""
        return next((turn for turn, request in self._requests.items() if key and request.key == key), 0)

    def prompt(self, request: ReplyRequest, text: str = "", *, open: bool = False) -> Prompt:
        """What the model reads to answer ``text``, or to answer what the request gives it to read."""
        instructions = request.instructions or self._history.instructions
        messages = self._history.messages if request.messages is None else request.messages
        prompt = prompt_of(instructions, messages, text, open=open)
        prompt = replace(prompt, tools=request.tools, must_call=request.must_call)
        return self._memory.with_state(prompt) if request.messages is None else prompt

    async def read_ahead(self, text: str, record: TurnRecord | None) -> None:
        """Have the model read what was said, and what the user has said so far. Raises StageError."""
        self._memory.said(await self._responder.read_ahead(self.prompt(self.defaults, text, open=True), record))

    def prepare(self, draft: Draft, record: TurnRecord, out: WayOut) -> Replying:
        """A reply in the making; nothing of it gets out before it is committed."""
        record.drafts += 1
        request = self.request(draft.turn)
        prepared = PreparedReply(self.prompt(request, draft.text), record, self._clock, request.max_tokens)
        self._memory.measure(record)
        reply = self._running[draft.turn] = Replying(draft, prepared, record, self._clock, out)
        return reply

    async def run(self, reply: Replying, responder: Responder | None = None) -> tuple[ReplyStatus, str]:
        """Run the reply to its own end; returns how it ended, and why it failed."""
        status: ReplyStatus = "completed"
        error = ""
        try:
            await reply.run(responder or self._responder)
        except* StageError as failed:
            status, error = "failed", str(stage_error_in(failed))
        return status, error

    async def waste(self, turn: int) -> Replying | None:
        """Stop a draft whose work is lost, and count it; a committed one was counted as drafted already."""
        reply = self._running.pop(turn, None)
        if reply is not None:
            await self.stop(reply)
            reply.record.drafted_tokens += 0 if reply.committed else reply.prepared.tokens
            reply.record.wasted_tokens += reply.prepared.tokens
        return reply

    async def stop(self, reply: Replying) -> None:
        """Cancel a reply's task and see it end."""
        if reply.task is not None:
            reply.task.cancel()
            await asyncio.wait([reply.task])

    def remember_call(self, turn: int, call: ToolCall) -> None:
        """The call comes before its output in the history, and the reply's words before the call."""
        key = reply_key(turn)
        if self.request(turn).in_conversation:
            if not self._history.holds(key):
                self._history.add(Message("assistant", ""), key)
            self._history.add(Message("assistant", "", calls=(call,)), call.id)

    async def close(self, reply: Replying, status: ReplyStatus, error: str = "") -> None:
        """The reply is over: keep what was heard of it, and tell."""
        record = reply.record
        self._running.pop(record.turn, None)
        if reply.committed and not reply.announced:  # cut in the moment of its beginning
            await self._emit(ReplyStarted(record.turn, self.request(record.turn).key))
        ended = reply.ended(status, error)
        if not self._memory.private:
            self._keep_word_times(reply, ended.text)
        record.status, record.reply, record.reply_tokens = ended.status, ended.text, ended.reply_tokens
        whole = ended.heard == ended.text
        if self.request(record.turn).in_conversation:
            await self._settle(reply, ended.heard if whole else _interrupted(ended.heard))
        self._requests.pop(record.turn, None)
        await self._emit(ended)
        await self._emit(TurnClosed(record))
        self._last_said = "" if self._memory.private else reply.said_text()

    async def forget(self) -> None:
        """In private mode the model overwrites what it holds of the last turn."""
        if self._memory.private:
            await self._responder.forget()

    def truncate(self, turn: int, heard_ms: float) -> str | None:
        """The client played no more of the reply than this: returns the words heard, None for an unknown reply."""
        if running := self._running.get(turn):
            running.limit_heard(heard_ms)
            return running.heard_text()
        if turn not in self._over:
            return None
        playback, text = self._over[turn]
        heard = playback.heard_text(text, heard_ms)
        self._history.rewrite(reply_key(turn), heard if heard == text else _interrupted(heard))
        return heard

    async def _settle(self, reply: Replying, heard: str) -> None:
        message, spoken = await self._responder.segments(reply.prepared, heard)
        self._remember(reply.record.turn, heard)
        self._memory.settle(reply.record.turn, message, spoken)
        await self.forget()

    def _remember(self, turn: int, heard: str) -> None:
        key = reply_key(turn)
        if self._history.holds(key):
            self._history.rewrite(key, heard)
        elif not self._memory.private:
            self._history.add_reply(heard, key)

    def _keep_word_times(self, reply: Replying, text: str) -> None:
        if reply.playback is not None:
            self._over[reply.record.turn] = (reply.playback, text)
        while len(self._over) > MOST_TRUNCATABLE:
            self._over.popitem(last=False)


def _interrupted(heard: str) -> str:
    return f"{heard}…" if heard else ""
