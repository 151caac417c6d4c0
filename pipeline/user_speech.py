"""The user's speech: from its sound to the words and verdicts that the TurnKeeper decides by."""

from __future__ import annotations

import asyncio
import logging

from audio.format import Samples
from pipeline.actions import FinishHearing, ForgetHeard, Hear, Judge
from pipeline.desk import Desk
from pipeline.events import UserStarted, UserStopped, UserTail, UserTranscript, UserWords
from pipeline.frames import Partial, SpeechPaused, VoiceEvent
from pipeline.hearing import Hearing
from pipeline.memory import Memory
from pipeline.ports import RATE_HZ, SAMPLES_PER_MS, StageError, TurnEnd
from pipeline.push_to_talk import HeldSound
from pipeline.timing import EndedBy, Mark, TurnRecord
from pipeline.transcribe import Transcriber
from pipeline.utterance import Phase, spoken_form

log = logging.getLogger(__name__)

JUDGED_S = 8


class UserSpeech:
    """What the user is saying, as far as it is known; ``turn`` is the open one that it belongs to, 0 if none is.

    Sound that the client holds is a turn of its own (``held``), whose words come in the same way.
    """

    def __init__(
        self, desk: Desk, hearing: Hearing, transcriber: Transcriber, turn_end: TurnEnd, memory: Memory
    ) -> None:
        self.held = HeldSound(hearing, transcriber, self._begin_held_turn)
        self.turn = 0
        self._desk = desk
        self._hearing = hearing
        self._transcriber = transcriber
        self._turn_end = turn_end
        self._memory = memory
        self._last_pause = (0, 0.0)
        self._answered_until = 0  # the sound of the committed turn
        self._stable = ""
        self._words = ""
        self._something_to_read = asyncio.Event()
        self._something_to_read.set()  # the instructions
        self._finishing: asyncio.Task[None] | None = None

    # --- what comes in ---

    async def push(self, frame: Samples, events: list[VoiceEvent]) -> None:
        """The frame that was just listened to, with the voice events that it brought."""
        listener = self._hearing.listener
        self._transcriber.push(frame, listener.voiced, listener.clear)
        now = self._desk.clock()
        await self._on_voice(events, now)
        await self._desk.ask_for(self._desk.keeper.on_frame(self._hearing.position, listener.last_speech, now))

    async def on_time(self, now: float) -> None:
        """Time passes, whether sound comes or not."""
        await self._on_voice(self._hearing.watch(), now)
        await self._desk.ask_for(self._desk.keeper.on_time(now))

    async def run_transcriber(self) -> None:
        """Take partial transcripts as they come."""
        while True:
            try:
                await self._on_partial(await self._transcriber.next_partial())
            except StageError as error:
                await self._desk.ask_for(self._desk.keeper.on_hearing_failed(str(error)))

    async def run_reading_ahead(self) -> None:
        """The model reads what was said before, and the user's words while they are still being spoken.

        Words that turn out to be others are read again: cheaper than reading all of them in the pause.
        """
        while True:
            await self._something_to_read.wait()
            self._something_to_read.clear()
            try:
                await self._desk.replies.read_ahead(self._words, self._desk.records.get(self._turn_being_heard))
            except StageError as error:
                # Nothing is lost yet: the reply will meet the same failure and fail its turn.
                log.warning("reading ahead failed: %s", error)

    # --- what the keeper wants done ---

    def attend(self, action: Hear | FinishHearing | ForgetHeard | Judge) -> None:
        """Carry out what the keeper wants to know, or not to know any more."""
        match action:
            case Hear(start):
                self._transcriber.begin(self._hearing.kept.cut(start - self._hearing.listener.preroll_samples))
            case FinishHearing(until):
                self._finishing = self._desk.spawn(self._finish(until))
            case ForgetHeard():
                self._transcriber.forget()
                self._memory.take_back()
                self.forget(self._hearing.position)
            case Judge(until):
                self._desk.spawn(self._judge(until))

    async def begin_turn(self, record: TurnRecord, start: int) -> None:
        """The turn begins at this sample, less the pre-roll."""
        self.turn, self._stable = record.turn, ""
        record.speech_end, record.speech_end_at = self._last_pause
        start = max(0, start - self._hearing.listener.preroll_samples)
        await self._desk.events.send(UserStarted(record.turn, start / SAMPLES_PER_MS))

    def reopen_turn(self, turn: int) -> None:
        """The user goes on: the turn is the open one again, and its final transcript is not wanted."""
        self.turn = turn
        if self._finishing is not None:
            self._finishing.cancel()

    def close_turn(self) -> None:
        """No turn is open."""
        self.turn = 0

    async def announce_stop(self, turn: int) -> None:
        """Tell that the user's turn is over."""
        await self._desk.events.send(UserStopped(turn, self._hearing.position / SAMPLES_PER_MS))

    async def announce_transcript(self, record: TurnRecord) -> None:
        """Tell that the user's turn is over, and what was said."""
        await self.announce_stop(record.turn)
        heard_s = self._transcriber.heard_s
        await self._desk.events.send(UserTranscript(record.turn, record.transcript, heard_s))

    # --- what the model is to read, and what is to be forgotten ---

    def let_read(self, words: str) -> None:
        """Have the model read what was said before, and these words behind it."""
        self._words = spoken_form(words)
        self._something_to_read.set()

    def note_answered(self) -> None:
        """What was heard up to now is being answered."""
        self._answered_until = self._hearing.position

    def forget_answered(self) -> None:
        """The answer is over: in private mode the sound that it answered goes."""
        self.forget(self._answered_until)

    def forget(self, until: int) -> None:
        """In private mode the sound goes, and its words unless somebody is speaking on."""
        if not self._memory.private:
            return
        self._hearing.kept.wipe(until)
        if self._desk.keeper.phase is None:
            self._transcriber.forget()
            self._stable = self._words = ""

    async def dismiss(self) -> None:
        """No turn is going on: nothing of the last one is to be read again."""
        self._words = ""
        await self._desk.replies.forget()

    # --- in detail ---

    async def _on_voice(self, events: list[VoiceEvent], now: float) -> None:
        for event in events:
            if isinstance(event, SpeechPaused):
                self._note_pause(event.end, now)
            await self._desk.ask_for(self._desk.keeper.on_voice(event, now))

    def _note_pause(self, end: int, now: float) -> None:
        self._last_pause = (end, self._hearing.arrived_at(end))
        if record := self._desk.records.get(self.turn):
            record.speech_end, record.speech_end_at = self._last_pause
            record.mark(Mark.PAUSE_SEEN, now)

    async def _on_partial(self, partial: Partial) -> None:
        await self._desk.ask_for(self._desk.keeper.on_partial(partial, self._desk.clock()))
        if self._desk.keeper.phase is not Phase.PAUSED:  # in a pause the draft reads them
            self.let_read(f"{partial.stable} {partial.unstable}")
        turn = self._turn_being_heard
        if turn and len(partial.stable) > len(self._stable):
            more, self._stable = partial.stable[len(self._stable) :], partial.stable
            await self._desk.events.send(UserWords(turn, more))
        if turn:
            await self._desk.events.send(UserTail(turn, partial.unstable))

    async def _finish(self, until: int) -> None:
        try:
            final = await self._transcriber.finish(until)
        except StageError as error:
            await self._desk.ask_for(self._desk.keeper.on_hearing_failed(str(error)))
            return
        if record := self._desk.records.get(self.turn):
            record.mark(Mark.ASR_FINAL, self._desk.clock())
            record.asr_lag_ms = self._transcriber.asr_lag_ms
        await self._desk.ask_for(self._desk.keeper.on_final(final, self._desk.clock()))

    async def _judge(self, until: int) -> None:
        sound = self._hearing.kept.cut(self._hearing.position - JUDGED_S * RATE_HZ)
        try:
            probability = await self._turn_end.judge(sound.samples)
        except StageError as error:
            log.warning("no verdict on the turn's end, the words and the clock decide: %s", error)
            return
        await self._desk.ask_for(self._desk.keeper.on_judgement(probability, until, self._desk.clock()))

    def _begin_held_turn(self) -> int:
        turn, self._stable = self._desk.keeper.new_number(), ""
        self._desk.records[turn] = TurnRecord(turn, typed=True, ended_by=EndedBy.CLIENT)
        return turn

    @property
    def _turn_being_heard(self) -> int:
        return self.turn or self.held.turn
