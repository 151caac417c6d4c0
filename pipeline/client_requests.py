"""What the client decides instead of the turn keeper: replies it asks for, sound it commits, silence it fears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from pipeline.actions import Commit, Cut, Draft
from pipeline.desk import Desk
from pipeline.events import (
    NobodySpoke,
    ReplyEnded,
    ReplyRefused,
    ReplyStarted,
    TurnClosed,
    TurnFailed,
    UserStopped,
    UserTranscript,
)
from pipeline.hearing import Hearing
from pipeline.history import user_key
from pipeline.ports import RATE_HZ, Message, StageError
from pipeline.push_to_talk import HeldSound
from pipeline.requests import ReplyRequest, TurnDetection
from pipeline.timing import EndedBy, Mark, TurnRecord
from pipeline.utterance import spoken_form

# What the model reads when the user has said nothing for as long as the client allows.
NOTHING_SAID = "(I have said nothing for a while.)"


class ClientRequests:
    """Carries out what a client asks for, each in its order with what the turn keeper wants."""

    def __init__(
        self,
        desk: Desk,
        hearing: Hearing,
        held: HeldSound,
        answer_aside: Callable[[int], None],
    ) -> None:
        self.detection = TurnDetection()
        self.taken = asyncio.Event()  # no sound that the client committed waits for its words
        self.taken.set()
        self._desk = desk
        self._hearing = hearing
        self._held = held
        self._answer_aside = answer_aside
        self._waiting: list[ReplyRequest] = []  # for the words of sound that the client committed
        self._unanswered = 0  # the turn that the client committed last
        self._idle_since: float | None = None

    # --- replies ---

    async def respond(self, request: ReplyRequest) -> None:
        """Answer, once the words of the sound that was committed are known."""
        if not self.taken.is_set():
            self._waiting.append(request)
        elif request.in_conversation:
            await self._take_floor(request)
        else:
            turn = self._open_record(self._desk.keeper.new_number()).turn
            self._desk.replies.ask(turn, request)
            self._answer_aside(turn)

    async def cancel(self, key: str, turn: int) -> None:
        """Cut the reply that was asked for under the key, that of the turn, or the one with the floor."""
        if waiting := [request for request in self._waiting if key and request.key == key]:
            self._waiting.remove(waiting[0])
            nothing = self._desk.keeper.new_number()
            await self._desk.events.send(ReplyStarted(nothing, key))
            await self._desk.events.send(ReplyEnded(nothing, "cancelled", "", "", 0))
            return
        turn = turn or self._desk.replies.turn_of(key)
        if turn and not self._desk.replies.request(turn).in_conversation:
            await self._desk.ask_for([Cut(turn)])
        else:
            await self._desk.ask_for(self._desk.keeper.client_cancel())

    # --- sound ---

    async def take_sound(self) -> None:
        """The user is done because the client says so; the words are waited for, and replies wait for them."""
        self.not_idle()
        if self.detection.push_to_talk:
            await self._hearing.hear_out()
            await self._take_held_sound()
        elif actions := self._desk.keeper.client_commit(self._desk.clock()):
            self.taken.clear()
            await self._desk.ask_for(actions)
        else:
            await self._announce(self._desk.keeper.new_number(), "", 0.0)

    async def clear_sound(self) -> None:
        """The client throws away what is no turn yet."""
        if not self.detection.push_to_talk:
            await self._desk.ask_for(self._desk.keeper.client_clear())
        elif self.taken.is_set():
            self._desk.records.pop(self._held.turn, None)
            self._held.clear()

    async def words_are_in(self) -> None:
        """The words of committed sound are known, or will not come: the replies that waited for them begin."""
        self.taken.set()
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            await self.respond(request)

    # --- silence ---

    def not_idle(self) -> None:
        """Somebody does something."""
        self._idle_since = None

    def idle_from(self, now: float) -> None:
        """A reply is over: from now on it is the user's turn."""
        self._idle_since = now

    async def on_time(self, now: float) -> None:
        """Time passes, and nobody speaks."""
        idle_s = self.detection.idle_timeout_ms / 1000
        if not idle_s or self._idle_since is None or now - self._idle_since < idle_s or self._desk.replies.turns():
            return
        idle_ms = (now - self._idle_since) * 1000
        end_ms = self._hearing.position * 1000 / RATE_HZ
        self.not_idle()
        turn = self._desk.keeper.new_number()
        await self._desk.events.send(NobodySpoke(turn, max(0.0, end_ms - idle_ms), end_ms))
        silence = (*self._desk.history.messages, Message("user", NOTHING_SAID))
        await self._take_floor(replace(self._desk.replies.defaults, messages=silence))

    # --- in detail ---

    async def _take_floor(self, request: ReplyRequest) -> None:
        turn, actions = self._desk.keeper.client_turn(self._unanswered)
        if not turn:
            await self._desk.events.send(ReplyRefused(request.key))
            return
        self.not_idle()
        self._unanswered = 0
        now = self._desk.clock()
        self._open_record(turn)
        self._desk.replies.ask(turn, request)
        await self._desk.ask_for([*actions, Draft(turn, 1, ""), Commit(turn, 1, "", EndedBy.CLIENT, now)])

    async def _take_held_sound(self) -> None:
        turn = self._held.turn or self._desk.keeper.new_number()
        record = self._open_record(turn)
        record.speech_end, record.speech_end_at = self._hearing.position, self._desk.clock()
        self.taken.clear()
        await self._desk.events.send(UserStopped(turn, None))
        self._desk.spawn(self._finish_held(record))

    async def _finish_held(self, record: TurnRecord) -> None:
        await self._close_unanswered()
        try:
            record.transcript, heard_s = await self._held.finish()
        except StageError as error:
            record.status = "failed"
            await self._desk.events.send(TurnFailed(record.turn, str(error)))
            await self._close(record.turn)
        else:
            record.mark(Mark.ASR_FINAL, self._desk.clock())
            self._unanswered = record.turn
            self._desk.history.add_user(spoken_form(record.transcript), user_key(record.turn))
            await self._desk.events.send(UserTranscript(record.turn, record.transcript, heard_s))
        self._held.clear()
        await self.words_are_in()

    async def _announce(self, turn: int, text: str, heard_s: float) -> None:
        await self._desk.events.send(UserStopped(turn, None))
        await self._desk.events.send(UserTranscript(turn, text, heard_s))

    def _open_record(self, turn: int) -> TurnRecord:
        fresh = TurnRecord(turn, speech_end_at=self._desk.clock(), ended_by=EndedBy.CLIENT, typed=True)
        return self._desk.records.setdefault(turn, fresh)

    async def _close_unanswered(self) -> None:
        """Nobody asked for a reply to the turn before this one."""
        turn, self._unanswered = self._unanswered, 0
        if turn:
            self._desk.records[turn].status = "no_reply"
            await self._close(turn)

    async def _close(self, turn: int) -> None:
        await self._desk.events.send(TurnClosed(self._desk.records.pop(turn)))
