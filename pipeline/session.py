"""Session: one conversation. Wires the stages together in one TaskGroup; the only wiring there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from audio.format import Samples
from pipeline.actions import Action, Draft
from pipeline.answering import Answering
from pipeline.channel import Backlog, Channel, ChannelClosed
from pipeline.client_requests import ClientRequests
from pipeline.config import Config
from pipeline.desk import Desk
from pipeline.events import SessionEvent
from pipeline.floor import Floor
from pipeline.hearing import Hearing
from pipeline.history import History
from pipeline.lull import Lull
from pipeline.memory import Memory
from pipeline.ports import LanguageModel, Recogniser, TurnEnd, VoiceActivity
from pipeline.recorded import words_in
from pipeline.replies import Replies
from pipeline.replying import ReplyOver
from pipeline.requests import ReplyRequest, TurnDetection
from pipeline.respond import Responder
from pipeline.speak import SpeechLink
from pipeline.timing import Clock, TurnRecord
from pipeline.transcribe import Transcriber
from pipeline.turn_actions import TurnActions
from pipeline.turns import TurnKeeper
from pipeline.user_speech import UserSpeech

# Events and actions are small and are taken at once; these limits only say that nothing can grow.
MOST_EVENTS = 4_000
MOST_ACTIONS = 1_000
TIME_PASSES_S, TIME_PASSES_IN_LULLS_S = 0.05, 0.25


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
        self.on_lull: Callable[[], None] = lambda: None  # sound may come in larger pieces for a moment
        self._stages = stages
        self._config = config
        self._clock = clock
        self._hearing = Hearing(config.listen, stages.activity, clock)
        model = stages.language_model
        self.history = History(config.llm.instructions, config.llm.history_tokens, model.count_tokens)
        private = config.memory.mode == "echoic"
        self._memory = Memory(self.history, model.new_memory(), clock, private=private)
        self._responder = Responder(model.open(), config.llm.max_tokens)
        self._replies = Replies(self._responder, self._memory, clock, self.events.send)
        self._keeper = TurnKeeper(config.turn, config.listen.gap_ms, self._replies.said)
        self._actions: Channel[Action | ReplyOver] = Channel("actions", MOST_ACTIONS)
        self._records: dict[int, TurnRecord] = {}
        desk = Desk(
            self._keeper,
            self.history,
            self._replies,
            self._records,
            self.events,
            self._actions,
            self._spawn,
            clock,
        )
        transcriber = Transcriber(stages.recogniser, tick_ms=config.asr.tick_ms)
        self._user = UserSpeech(desk, self._hearing, transcriber, stages.turn_end, self._memory)
        self._answering = Answering(desk, self._hearing, stages.speech, config)
        self._requests = ClientRequests(desk, self._hearing, self._user.held, self._answer_aside)
        self._turns = TurnActions(desk, self._user, self._answering, self._requests, self._memory)
        self._lull = Lull(clock)
        self._tasks: asyncio.TaskGroup | None = None

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
                user = self._user
                for loop in (self._run_hearing, user.run_transcriber, user.run_reading_ahead, self._run_clock):
                    self._tasks.create_task(loop())
                await self._turns.run()
                raise _Closed
        except* (_Closed, ChannelClosed):
            pass  # a stage that still had something to say finds the channel closed
        finally:
            await self.events.close()
            self._memory.clear()
            await self._user.dismiss()
            await self._responder.close()

    async def close(self) -> None:
        """End the conversation: running replies are cancelled, ``run`` returns."""
        await self._actions.close()

    def hold(self) -> None:
        """Nobody is there to listen: replies are made, but their sound waits where it is."""
        self._answering.hold()

    def release(self) -> None:
        """Somebody listens again: replies go on from the exact sample."""
        self._answering.release()

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
        self._hearing.listener.configure(detection.listen(self._config.listen))

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
                self._user.held.push(frame)
            else:
                await self._user.push(frame, events)
            if self._in_lull():
                self.on_lull()

    async def _run_clock(self) -> None:
        while True:
            await asyncio.sleep(TIME_PASSES_IN_LULLS_S if self._in_lull() else TIME_PASSES_S)
            now = self._clock()
            if not self._requests.detection.push_to_talk:
                await self._user.on_time(now)
            if not self._user.turn:
                await self._requests.on_time(now)
            self._watch_memory()
            if news := self._memory.news():
                await self.events.send(news)

    def _in_lull(self) -> bool:
        pressing = self._requests.detection.push_to_talk  # the client may say at any moment that the user is done
        return self._lull.note(busy=pressing or not self.idle or not self._hearing.listener.quiet)

    def _watch_memory(self) -> None:
        """Three seconds in which neither side is heard, and what was said is gone."""
        listener, floor = self._hearing.listener, self._keeper.floor
        if listener.speaking or listener.onset_pending or floor in (Floor.PLAYING, Floor.SUSPENDED):
            self._memory.touch()
        elif self._memory.expire() and floor is Floor.FREE:
            self._user.forget(self._hearing.position)

    # --- ties between its parts ---

    def _answer_aside(self, turn: int) -> None:
        """A reply outside the conversation has a memory of its own, and no turn is waited for or taken."""
        conversation = self._stages.language_model.open()
        reply = self._answering.start(Draft(turn, 1, ""), Responder(conversation, self._config.llm.max_tokens))
        reply.commit()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None
        return self._tasks.create_task(work)


class _Closed(Exception):
    """Leaves the session's TaskGroup."""
