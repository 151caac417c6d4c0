"""What the TurnKeeper wants done, carried out in order: turns begin, are answered, and end."""

from __future__ import annotations

from pipeline.actions import (
    Action,
    BeginTurn,
    Commit,
    Cut,
    Draft,
    DropDraft,
    EndTurn,
    FailTurn,
    FinishHearing,
    ForgetHeard,
    ForgetTurn,
    Hear,
    Judge,
    PausePlayback,
    Reopen,
    ResumePlayback,
)
from pipeline.answering import Answering
from pipeline.client_requests import ClientRequests
from pipeline.desk import Desk
from pipeline.events import ReplyAudio, ReplyStatus, TurnClosed, TurnFailed, TurnReopened
from pipeline.history import user_key
from pipeline.memory import Memory
from pipeline.replying import Replying, ReplyOver
from pipeline.timing import Mark, TurnRecord
from pipeline.user_speech import UserSpeech
from pipeline.utterance import spoken_form


class TurnActions:
    """One task carries them out, so no two parts of a session ever disagree about whose turn it is."""

    def __init__(
        self, desk: Desk, user: UserSpeech, answering: Answering, requests: ClientRequests, memory: Memory
    ) -> None:
        self._desk = desk
        self._user = user
        self._answering = answering
        self._requests = requests
        self._memory = memory

    async def run(self) -> None:
        """Carry out actions until their channel is closed; what is being answered then is cancelled."""
        async for action in self._desk.actions:
            await self._do(action)
            del action  # a turn must not be held here until the next one
        for turn in self._desk.replies.turns():
            await self._desk.replies.waste(turn)

    async def _do(self, action: Action | ReplyOver) -> None:
        match action:
            case BeginTurn(turn, start):
                await self._begin_turn(turn, start)
            case Hear() | FinishHearing() | ForgetHeard() | Judge():
                self._user.attend(action)
            case Draft():
                self._answering.start(action)
            case DropDraft(turn):
                await self._desk.replies.waste(turn)
            case Commit():
                await self._commit(action)
            case Reopen(turn, committed):
                await self._reopen(turn, committed)
            case EndTurn():
                await self._end_turn(action)
            case FailTurn(turn, reason):
                await self._fail_turn(turn, reason)
            case ForgetTurn(turn):
                await self._forget_turn(turn)
            case PausePlayback(turn) | ResumePlayback(turn):
                self._pause(turn, isinstance(action, PausePlayback))
            case Cut(turn):
                await self._cut(turn)
            case ReplyOver(reply, status, error):
                await self._finish_reply(reply, status, error)

    # --- turns ---

    async def _begin_turn(self, turn: int, start: int) -> None:
        self._requests.not_idle()
        record = self._desk.records[turn] = TurnRecord(turn)
        self._answering.expect()
        await self._user.begin_turn(record, start)

    async def _commit(self, commit: Commit) -> None:
        reply, record = self._desk.replies.get(commit.turn), self._desk.records[commit.turn]
        assert reply is not None
        record.ended_by = commit.ended_by
        record.mark(Mark.TURN_END_DECIDED, commit.decided_at)
        record.adopted = reply.began_at < commit.decided_at
        if not record.typed:
            self._user.close_turn()
            record.transcript = commit.text
            await self._user.announce_transcript(record)
        record.drafted_tokens += reply.prepared.tokens
        self._memory.commit(commit.turn, commit.text)
        self._user.note_answered()
        reply.commit()

    async def _reopen(self, turn: int, committed: bool) -> None:
        record = self._desk.records[turn]
        record.reopens += 1
        record.marks.clear()
        self._user.reopen_turn(turn)
        if not committed:
            return
        reply = await self._desk.replies.waste(turn)
        self._desk.history.remove(user_key(turn))
        if reply is not None and reply.announced:
            await self._desk.events.send(reply.ended("cancelled"))
        await self._desk.events.send(TurnReopened(turn))

    async def _end_turn(self, end: EndTurn) -> None:
        record = self._desk.records.pop(end.turn)
        record.ended_by, record.transcript, record.status = end.ended_by, end.text, "no_reply"
        self._user.close_turn()
        if end.kept:
            self._desk.history.add_user(spoken_form(end.text), user_key(end.turn))
        await self._user.dismiss()
        await self._user.announce_transcript(record)
        await self._desk.events.send(TurnClosed(record))
        await self._requests.words_are_in()

    async def _fail_turn(self, turn: int, reason: str) -> None:
        record = self._desk.records.pop(turn)
        record.status = "failed"
        self._user.close_turn()
        await self._user.dismiss()
        await self._user.announce_stop(turn)
        await self._desk.events.send(TurnFailed(turn, reason))
        await self._desk.events.send(TurnClosed(record))
        await self._requests.words_are_in()

    async def _forget_turn(self, turn: int) -> None:
        del self._desk.records[turn]
        self._user.close_turn()
        await self._requests.words_are_in()

    # --- replies ---

    def _pause(self, turn: int, pause: bool) -> None:
        if reply := self._desk.replies.get(turn):
            reply.pause() if pause else reply.resume()

    async def _cut(self, turn: int) -> None:
        """Cancel the reply as a unit and drop what is still queued under its number."""
        if (reply := self._desk.replies.get(turn)) is None:
            return
        await self._desk.replies.stop(reply)
        await self._desk.events.discard(lambda event: isinstance(event, ReplyAudio) and event.turn == turn)
        await self._close_reply(reply, "cancelled", "")

    async def _finish_reply(self, reply: Replying, status: ReplyStatus, error: str) -> None:
        """The reply came to its own end; one that was cut meanwhile is closed already."""
        if self._desk.replies.get(reply.draft.turn) is reply:
            await self._close_reply(reply, status, error)
            await self._desk.ask_for(self._desk.keeper.on_reply_done(reply.draft.turn, self._desk.clock()))

    async def _close_reply(self, reply: Replying, status: ReplyStatus, error: str) -> None:
        self._desk.records.pop(reply.draft.turn, None)
        self._requests.idle_from(self._desk.clock())
        self._user.forget_answered()
        await self._desk.replies.close(reply, status, error)
        self._user.let_read("")
