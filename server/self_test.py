"""The self-test: one short spoken turn through the loaded models, while nobody is there to be disturbed."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audio.format import Samples
from audio.resample import resample
from pipeline.events import ReplyAudio, ReplyEnded, TurnClosed, TurnFailed, UserTranscript
from pipeline.ports import RATE_HZ, StageError, Voice
from pipeline.session import Session
from pipeline.timing import Clock, loop_clock

log = logging.getLogger(__name__)

QUESTION = "What time is it?"
CHUNK_MS = 20
DEADLINE_S = 20.0
QUIET_S = 3  # nobody was there for so long before a test begins
RETRY_S = 30.0  # a server that failed may have recovered


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a self-test ended, at ``ended_at`` on the clock.

    ``answered_in_ms``: from the last sample of the question to the first sound of the answer. ``failed_at`` says
    what did not work, in a word or two; "" where everything did.
    """

    ended_at: float
    answered_in_ms: float = 0.0
    failed_at: str = ""

    @property
    def passed(self) -> bool:
        """Whether the question was understood as speech and answered aloud."""
        return not self.failed_at


class SelfTest:
    """Takes turns by itself. One that is interrupted leaves the outcome of the one before."""

    def __init__(
        self, new_session: Callable[[], Session], voice: Callable[[], Voice], clock: Clock = loop_clock
    ) -> None:
        self.last: Outcome | None = None
        self._new_session = new_session
        self._voice = voice
        self._clock = clock
        self._asked_at = 0.0
        self._turn: asyncio.Task[Outcome] | None = None

    async def run(self, every_s: float, idle: Callable[[], bool]) -> None:
        """Test once nobody has been there for a while, and again every so often; until cancelled."""
        quiet_s = 0
        try:
            while True:
                await asyncio.sleep(1)
                quiet_s = quiet_s + 1 if idle() else 0
                if quiet_s >= QUIET_S and self._is_due(every_s):
                    await self.take()
        finally:
            self.interrupt()

    async def take(self) -> None:
        """Test now."""
        self._turn = asyncio.create_task(self._ask())
        try:
            await asyncio.wait([self._turn])
            if not self._turn.cancelled():
                self.last = self._turn.result()
        finally:
            self._turn.cancel()

    def interrupt(self) -> None:
        """Somebody comes: give way."""
        if self._turn is not None:
            self._turn.cancel()

    def _is_due(self, every_s: float) -> bool:
        if self.last is None:
            return True
        wait_s = every_s if self.last.passed else min(every_s, RETRY_S)
        return self._clock() - self.last.ended_at >= wait_s

    async def _ask(self) -> Outcome:
        try:
            async with asyncio.timeout(DEADLINE_S):
                question = await self._voice().speak(QUESTION)
                return await self._converse(resample(question.samples, question.rate_hz, RATE_HZ))
        except TimeoutError:
            failed_at = "the time it may take"
        except StageError as error:
            failed_at = error.stage
        except Exception as bug:
            log.error("self-test failed unexpectedly", exc_info=bug)
            failed_at = "an unexpected failure"
        return self._failed(failed_at)

    async def _converse(self, sound: Samples) -> Outcome:
        session = self._new_session()
        async with asyncio.TaskGroup() as work:
            work.create_task(session.run())
            talking = work.create_task(self._talk(session, sound))
            try:
                return await self._listen(session)
            finally:
                talking.cancel()
                await session.close()

    async def _talk(self, session: Session, sound: Samples) -> None:
        """Say it in real time, and be silent from then on."""
        step = RATE_HZ * CHUNK_MS // 1000
        began = self._clock()
        for number in itertools.count(1):
            if len(sound):
                self._asked_at = self._clock()
            piece, sound = sound[:step], sound[step:]
            await session.hear(np.pad(piece, (0, step - len(piece))))
            await asyncio.sleep(began + number * CHUNK_MS / 1000 - self._clock())

    async def _listen(self, session: Session) -> Outcome:
        understood = False
        async for event in session.events:
            match event:
                case UserTranscript(text=text):
                    understood = bool(text)
                case ReplyAudio(pcm=pcm) if any(pcm):
                    now = self._clock()
                    return Outcome(now, (now - self._asked_at) * 1000)
                case TurnFailed(error=error) | ReplyEnded(status="failed", error=error):
                    return self._failed(error.partition(":")[0])  # of a StageError, the stage
                case TurnClosed():
                    return self._failed("the reply" if understood else "speech recognition")
        return self._failed("the session")

    def _failed(self, failed_at: str) -> Outcome:
        log.error("self-test failed at %s", failed_at)
        return Outcome(self._clock(), failed_at=failed_at)
