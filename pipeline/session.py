"""Session: one conversation. Wires the stages together in one TaskGroup; the only wiring there is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from audio.format import Samples
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
from pipeline.channel import Backlog, Channel, ChannelClosed
from pipeline.client_requests import ClientRequests, Desk
from pipeline.config import Config
from pipeline.events import (
    ReplyAudio,
    ReplyStatus,
    SessionEvent,
    TurnClosed,
    TurnFailed,
    TurnReopened,
    UserStarted,
    UserStopped,
    UserTail,
    UserTranscript,
    UserWords,
)
from pipeline.frames import Partial, SpeechPaused, VoiceEvent
from pipeline.hearing import Hearing
from pipeline.history import History, user_key
from pipeline.memory import Memory
from pipeline.ports import RATE_HZ, LanguageModel, Recogniser, StageError, TurnEnd, VoiceActivity
from pipeline.push_to_talk import HeldSound
from pipeline.recorded import words_in
from pipeline.replies import Replies
from pipeline.replying import Replying, WayOut
from pipeline.requests import ReplyRequest, TurnDetection
from pipeline.respond import Responder
from pipeline.speak import SpeechLink
from pipeline.timing import Clock, EndedBy, Mark, TurnRecord
from pipeline.transcribe import Transcriber
from pipeline.turns import TurnKeeper
from pipeline.utterance import Floor, Phase, spoken_form

log = logging.getLogger(__name__)

# Events and actions are small and are taken at once; these limits only say that nothing can grow.
MOST_EVENTS = 4_000
MOST_ACTIONS = 1_000
TIME_PASSES_S = 0.05
JUDGED_S = 8
SAMPLES_PER_MS = RATE_HZ // 1000


@dataclass(frozen=True, slots=True)
class Stages:
    """What one session works with: its own ears, and its share of models that serve all sessions.

    ``activity`` hears live sound, ``new_activity`` makes another ear for a recording.
    """

    activity: VoiceActivity
    turn_end: TurnEnd
    recogniser: Recogniser
    language_model: LanguageModel
    speech: SpeechLink
    new_activity: Callable[[], VoiceActivity]


class Session:
    """One conversation: sound and wishes in, events out.

    ``run`` owns every task of it. What the TurnKeeper wants done goes through one channel and is done by one task,
    in order, so no two parts of the session ever disagree about whose turn it is.
    """

    def __init__(self, stages: Stages, config: Config, clock: Clock) -> None:
        self.events: Channel[SessionEvent] = Channel("session events", MOST_EVENTS)
        self._stages = stages
        self._config = config
        self._listen = config.listen
        self._clock = clock
        self._hearing = Hearing(config.listen, stages.activity, clock)
        self._transcriber = Transcriber(stages.recogniser, tick_ms=config.asr.tick_ms)
        self._held = HeldSound(self._hearing, self._transcriber, self._begin_held_turn)
        model = stages.language_model
        self.history = History(config.llm.instructions, config.llm.history_tokens, model.count_tokens)
        private = config.memory.mode == "echoic"
        self._memory = Memory(self.history, model.new_memory(), clock, private=private)
        self._responder = Responder(model.open(), config.llm.max_tokens)
        self._replies = Replies(self._responder, self._memory, clock, self.events.send)
        self._keeper = TurnKeeper(config.turn, config.listen.gap_ms, self._replies.said)
        self._actions: Channel[Action | _ReplyOver] = Channel("actions", MOST_ACTIONS)
        self._records: dict[int, TurnRecord] = {}
        self._last_pause = (0, 0.0)
        self._heard_until = 0  # the sound of the committed turn
        self._open_turn = 0
        self._stable = ""
        self._words = ""
        self._something_to_read = asyncio.Event()
        self._something_to_read.set()  # the instructions
        self._finishing: asyncio.Task[None] | None = None
        desk = Desk(self._keeper, self.history, self._replies, self._records, self.events, self._ask_for, clock)
        self._requests = ClientRequests(desk, self._hearing, self._held, self._answer_aside, self._spawn)
        self._tasks: asyncio.TaskGroup | None = None
        self._audience = asyncio.Event()
        self._audience.set()

    # --- from outside ---

    @property
    def private(self) -> bool:
        """Whether no words of a turn outlive it."""
        return self._memory.private

    @property
    def idle(self) -> bool:
        """Whether no turn is open and no reply is under way; so it is once the session is closed."""
        return not self._records or self._actions.closed

    def backlogs(self) -> tuple[Backlog, ...]:
        """What waits in the queues of sound."""
        return self._hearing.backlog, self._stages.speech.backlog

    async def run(self) -> None:
        """Converse until ``close``. An exception that is no StageError is a bug and ends the session."""
        try:
            async with self._stages.speech, asyncio.TaskGroup() as self._tasks:
                for loop in (self._run_hearing, self._run_transcriber, self._run_reading_ahead, self._run_clock):
                    self._tasks.create_task(loop())
                await self._run_actions()
                raise _Closed
        except* (_Closed, ChannelClosed):
            pass  # a stage that still had something to say finds the channel closed
        finally:
            await self.events.close()
            self._memory.clear()
            await self._dismiss()
            await self._responder.close()

    async def close(self) -> None:
        """End the conversation: running replies are cancelled, ``run`` returns."""
        await self._actions.close()

    def hold(self) -> None:
        """Nobody is there to listen: replies are made, but their sound waits where it is."""
        self._audience.clear()

    def release(self) -> None:
        """Somebody listens again: replies go on from the exact sample."""
        self._audience.set()

    async def hear(self, samples: Samples) -> None:
        """More sound from the user, float32 mono at 16 kHz. With push to talk it waits until it can be kept."""
        if self._requests.detection.push_to_talk:
            await self._requests.taken.wait()
            await self._hearing.push_all(samples)
        else:
            await self._hearing.push(samples)

    async def configure(self, detection: TurnDetection, defaults: ReplyRequest) -> None:
        """How turns are told apart from now on, and how those are answered that nobody asks for."""
        self._replies.defaults = defaults
        before = self._requests.detection
        if detection.push_to_talk != before.push_to_talk:
            await self._requests.clear_sound()
        self._requests.detection = detection
        self._keeper.configure(detection.turn(self._config.turn))
        self._listen = detection.listen(self._config.listen)
        self._hearing.listener.configure(self._listen)

    async def commit_sound(self) -> None:
        """The client says that the user is done; the words are remembered, and nothing is answered."""
        await self._requests.take_sound()

    async def understand(self, sound: Samples) -> str:
        """The words in a recording, float32 mono at 16 kHz, that belongs to no turn. Raises StageError."""
        return await words_in(sound, self._stages.new_activity(), self._stages.recogniser)

    async def clear_sound(self) -> None:
        """The client throws away the sound that is no turn yet."""
        await self._requests.clear_sound()

    async def respond(self, request: ReplyRequest) -> None:
        """Answer what is in the history, after the words of sound that was committed before.

        Refused, by an event, while another reply has the floor.
        """
        self._memory.touch()
        await self._requests.respond(request)

    async def cancel(self, key: str = "", turn: int = 0) -> None:
        """Cut a reply: the one that was asked for under this key, that of this turn, or the one with the floor."""
        await self._requests.cancel(key, turn)

    def truncate(self, turn: int, heard_ms: float) -> str | None:
        """The client played no more of this turn's reply; returns the words heard, None for an unknown reply."""
        return self._replies.truncate(turn, heard_ms)

    # --- loops ---

    async def _run_hearing(self) -> None:
        async for frame, events in self._hearing.frames():
            if self._requests.detection.push_to_talk:
                self._held.push(frame)
                continue
            listener = self._hearing.listener
            self._transcriber.push(frame, listener.voiced, listener.clear)
            now = self._clock()
            await self._on_voice(events, now)
            await self._ask_for(self._keeper.on_frame(self._hearing.position, listener.last_speech, now))

    async def _on_voice(self, events: list[VoiceEvent], now: float) -> None:
        for event in events:
            if isinstance(event, SpeechPaused):
                self._note_pause(event.end, now)
            await self._ask_for(self._keeper.on_voice(event, now))

    async def _run_transcriber(self) -> None:
        while True:
            try:
                await self._on_partial(await self._transcriber.next_partial())
            except StageError as error:
                await self._ask_for(self._keeper.on_hearing_failed(str(error)))

    async def _on_partial(self, partial: Partial) -> None:
        await self._ask_for(self._keeper.on_partial(partial, self._clock()))
        if self._keeper.phase is not Phase.PAUSED:  # in a pause the draft reads them
            self._let_read(f"{partial.stable} {partial.unstable}")
        turn = self._turn_being_heard
        if turn and len(partial.stable) > len(self._stable):
            more, self._stable = partial.stable[len(self._stable) :], partial.stable
            await self.events.send(UserWords(turn, more))
        if turn:
            await self.events.send(UserTail(turn, partial.unstable))

    async def _run_reading_ahead(self) -> None:
        """The model reads what was said before, and the user's words while they are still being spoken.

        Words that turn out to be others are read again: cheaper than reading all of them in the pause.
        """
        while True:
            await self._something_to_read.wait()
            self._something_to_read.clear()
            try:
                await self._replies.read_ahead(self._words, self._records.get(self._turn_being_heard))
            except StageError as error:
                # Nothing is lost yet: the reply will meet the same failure and fail its turn.
                log.warning("reading ahead failed: %s", error)

    def _let_read(self, words: str) -> None:
        self._words = spoken_form(words)
        self._something_to_read.set()

    async def _run_clock(self) -> None:
        while True:
            await asyncio.sleep(TIME_PASSES_S)
            now = self._clock()
            if not self._requests.detection.push_to_talk:
                await self._on_voice(self._hearing.watch(), now)
                await self._ask_for(self._keeper.on_time(now))
            if not self._open_turn:
                await self._requests.on_time(now)
            self._watch_memory()
            if news := self._memory.news():
                await self.events.send(news)

    def _watch_memory(self) -> None:
        """Three seconds in which neither side is heard, and what was said is gone."""
        listener, floor = self._hearing.listener, self._keeper.floor
        if listener.speaking or listener.onset_pending or floor in (Floor.PLAYING, Floor.SUSPENDED):
            self._memory.touch()
        elif self._memory.expire() and floor is Floor.FREE:
            self._forget_heard(self._hearing.position)

    async def _run_actions(self) -> None:
        async for action in self._actions:
            await self._do(action)
            del action  # a turn must not be held here until the next one
        for turn in self._replies.turns():
            await self._replies.waste(turn)

    async def _ask_for(self, actions: list[Action]) -> None:
        for action in actions:
            await self._actions.send(action)

    # --- what the keeper wants done ---

    async def _do(self, action: Action | _ReplyOver) -> None:
        match action:
            case BeginTurn(turn, start):
                await self._begin_turn(turn, start)
            case Hear() | FinishHearing() | ForgetHeard() | Judge():
                self._attend(action)
            case Draft():
                self._prepare(action)
            case DropDraft(turn):
                await self._replies.waste(turn)
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
            case _ReplyOver(reply, status, error):
                await self._finish_reply(reply, status, error)

    def _attend(self, action: Hear | FinishHearing | ForgetHeard | Judge) -> None:
        match action:
            case Hear(start):
                self._transcriber.begin(self._hearing.kept.cut(start - self._preroll))
            case FinishHearing(until):
                self._finishing = self._spawn(self._finish_hearing(until))
            case ForgetHeard():
                self._forget_utterance()
            case Judge(until):
                self._spawn(self._judge(until))

    async def _begin_turn(self, turn: int, start: int) -> None:
        self._open_turn, self._stable = turn, ""
        self._requests.not_idle()
        record = self._records[turn] = TurnRecord(turn)
        record.speech_end, record.speech_end_at = self._last_pause
        await self.events.send(UserStarted(turn, max(0, start - self._preroll) / SAMPLES_PER_MS))

    async def _finish_hearing(self, until: int) -> None:
        try:
            final = await self._transcriber.finish(until)
        except StageError as error:
            await self._ask_for(self._keeper.on_hearing_failed(str(error)))
            return
        if record := self._records.get(self._open_turn):
            record.mark(Mark.ASR_FINAL, self._clock())
            record.asr_lag_ms = self._transcriber.asr_lag_ms
        await self._ask_for(self._keeper.on_final(final, self._clock()))

    async def _judge(self, until: int) -> None:
        sound = self._hearing.kept.cut(self._hearing.position - JUDGED_S * RATE_HZ)
        try:
            probability = await self._stages.turn_end.judge(sound.samples)
        except StageError as error:
            log.warning("no verdict on the turn's end, the words and the clock decide: %s", error)
            return
        await self._ask_for(self._keeper.on_judgement(probability, until, self._clock()))

    def _prepare(self, draft: Draft, responder: Responder | None = None) -> Replying:
        record, request = self._records[draft.turn], self._replies.request(draft.turn)
        out = WayOut(
            link=self._stages.speech if request.spoken else None,
            speed=request.speed,
            rate_hz=self._config.speech.rate_hz,
            playback=self._config.playback,
            key=request.key,
            emit=self._emit,
            on_call=lambda call: self._replies.remember_call(draft.turn, call),
            on_verdict=lambda p: self._ask_for(self._keeper.on_text_done(draft, p, self._clock())),
            on_ready=lambda: self._ask_for(self._keeper.on_audio_ready(draft, self._clock())),
            clear_to_speak=self._clear_to_speak,
            on_heard=lambda: self._keeper.on_reply_heard(draft.turn),
        )
        reply = self._replies.prepare(draft, record, out)
        reply.task = self._spawn(self._run_reply(reply, responder))
        return reply

    async def _run_reply(self, reply: Replying, responder: Responder | None) -> None:
        try:
            status, error = await self._replies.run(reply, responder)
        finally:
            if responder is not None:
                await responder.close()
        await self._actions.send(_ReplyOver(reply, status, error))

    async def _commit(self, commit: Commit) -> None:
        reply, record = self._replies.get(commit.turn), self._records[commit.turn]
        assert reply is not None
        record.ended_by = commit.ended_by
        record.mark(Mark.TURN_END_DECIDED, commit.decided_at)
        record.adopted = reply.began_at < commit.decided_at
        if not record.typed:
            self._open_turn = 0
            record.transcript = commit.text
            await self._announce_end(record)
        record.drafted_tokens += reply.prepared.tokens
        self._memory.commit(commit.turn, commit.text)
        self._heard_until = self._hearing.position
        reply.commit()

    async def _announce_end(self, record: TurnRecord) -> None:
        await self.events.send(UserStopped(record.turn, self._hearing.position / SAMPLES_PER_MS))
        heard_s = self._transcriber.heard_s
        await self.events.send(UserTranscript(record.turn, record.transcript, heard_s))

    async def _reopen(self, turn: int, committed: bool) -> None:
        record = self._records[turn]
        record.reopens += 1
        record.marks.clear()
        if self._finishing is not None:
            self._finishing.cancel()
        if not committed:
            return
        self._open_turn = turn
        reply = await self._replies.waste(turn)
        self.history.remove(user_key(turn))
        if reply is not None and reply.announced:
            await self.events.send(reply.ended("cancelled"))
        await self.events.send(TurnReopened(turn))

    async def _end_turn(self, end: EndTurn) -> None:
        record = self._records.pop(end.turn)
        record.ended_by, record.transcript, record.status = end.ended_by, end.text, "no_reply"
        self._open_turn = 0
        if end.kept:
            self.history.add_user(spoken_form(end.text), user_key(end.turn))
        await self._dismiss()
        await self._announce_end(record)
        await self.events.send(TurnClosed(record))
        await self._requests.words_are_in()

    async def _fail_turn(self, turn: int, reason: str) -> None:
        record = self._records.pop(turn)
        record.status = "failed"
        self._open_turn = 0
        await self._dismiss()
        await self.events.send(UserStopped(turn, self._hearing.position / SAMPLES_PER_MS))
        await self.events.send(TurnFailed(turn, reason))
        await self.events.send(TurnClosed(record))
        await self._requests.words_are_in()

    async def _forget_turn(self, turn: int) -> None:
        del self._records[turn]
        self._open_turn = 0
        await self._requests.words_are_in()

    def _pause(self, turn: int, pause: bool) -> None:
        if reply := self._replies.get(turn):
            reply.pause() if pause else reply.resume()

    async def _cut(self, turn: int) -> None:
        """Cancel the reply as a unit and drop what is still queued under its number."""
        if (reply := self._replies.get(turn)) is None:
            return
        await self._replies.stop(reply)
        await self.events.discard(lambda event: isinstance(event, ReplyAudio) and event.turn == turn)
        await self._close_reply(reply, "cancelled", "")

    async def _finish_reply(self, reply: Replying, status: ReplyStatus, error: str) -> None:
        """The reply came to its own end; one that was cut meanwhile is closed already."""
        if self._replies.get(reply.draft.turn) is reply:
            await self._close_reply(reply, status, error)
            await self._ask_for(self._keeper.on_reply_done(reply.draft.turn, self._clock()))

    async def _close_reply(self, reply: Replying, status: ReplyStatus, error: str) -> None:
        self._records.pop(reply.draft.turn, None)
        self._requests.idle_from(self._clock())
        self._forget_heard(self._heard_until)
        await self._replies.close(reply, status, error)
        self._let_read("")

    def _answer_aside(self, turn: int) -> None:
        """A reply outside the conversation has a memory of its own, and no turn is waited for or taken."""
        conversation = self._stages.language_model.open()
        reply = self._prepare(Draft(turn, 1, ""), Responder(conversation, self._config.llm.max_tokens))
        reply.commit()

    def _begin_held_turn(self) -> int:
        turn, self._stable = self._keeper.new_number(), ""
        self._records[turn] = TurnRecord(turn, typed=True, ended_by=EndedBy.CLIENT)
        return turn

    # --- what else there is to know ---

    async def _emit(self, event: SessionEvent) -> None:
        if isinstance(event, ReplyAudio):
            await self._audience.wait()
        await self.events.send(event)

    async def _dismiss(self) -> None:
        """No turn is going on: in private mode the model overwrites what it holds of the last one."""
        self._words = ""
        if self._memory.private:
            await self._responder.forget()

    def _forget_utterance(self) -> None:
        self._transcriber.forget()
        self._memory.take_back()
        self._forget_heard(self._hearing.position)

    def _forget_heard(self, until: int) -> None:
        """In private mode the sound goes, and its words unless somebody is speaking on."""
        if not self._memory.private:
            return
        self._hearing.kept.wipe(until)
        if self._keeper.phase is None:
            self._transcriber.forget()
            self._stable = self._words = ""

    async def _clear_to_speak(self) -> None:
        """The last check before the first audio leaves: has all sound been listened to, and is it silence?"""
        await self._audience.wait()
        listener = self._hearing.listener
        with suppress(TimeoutError):  # no sound comes any more, so nobody goes on
            async with asyncio.timeout(self._config.listen.gap_ms / 1000):
                await self._hearing.caught_up()
                while listener.onset_pending:
                    await self._hearing.next_frame()
                if listener.speaking:  # the keeper reopens the turn, and this reply is cancelled meanwhile
                    await self._hearing.next_frame()

    def _note_pause(self, end: int, now: float) -> None:
        self._last_pause = (end, self._hearing.arrived_at(end))
        if record := self._records.get(self._open_turn):
            record.speech_end, record.speech_end_at = self._last_pause
            record.mark(Mark.PAUSE_SEEN, now)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None
        return self._tasks.create_task(work)

    @property
    def _turn_being_heard(self) -> int:
        return self._open_turn or self._held.turn

    @property
    def _preroll(self) -> int:
        return self._listen.preroll_ms * SAMPLES_PER_MS


@dataclass(frozen=True, slots=True)
class _ReplyOver:
    """A reply ran to its end. It goes through the actions' channel, so that it cannot cross with a cut."""

    reply: Replying
    status: ReplyStatus
    error: str


class _Closed(Exception):
    """Leaves the session's TaskGroup."""
