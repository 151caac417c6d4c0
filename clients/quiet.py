"""Nobody speaks: silence, noise and music through a whole session, as fast as the models go.

The session is the one that serves users, with the real ear and the real recogniser. Only its clock is another:
time is what the ear has heard, and the sound waits wherever a model is at work on it. So an hour passes in a few
minutes, nothing is dropped, and decisions fall where they would in real time on a machine that is fast enough.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rich.table import Table

from clients.sounds import Sound
from clients.tables import titled
from pipeline.channel import ChannelClosed
from pipeline.config import Config
from pipeline.events import ReplyStarted, SessionEvent, TurnFailed, UserStarted, UserTranscript
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, EchoicError, Hypothesis, Samples
from pipeline.session import Session, Stages

PATIENCE_S = 60.0  # real time; a model that takes longer for one job will not come back
MOST_SHOWN = 40  # characters of what was heard in one kind of sound
LAST_SILENCE_S = 5.0  # after the last sound: longer than any wait for the end of a turn


@dataclass(slots=True)
class Heard:
    """What was made of one kind of sound: turns opened by the ear, words recognised in them, turns answered."""

    seconds: float = 0.0
    turns: int = 0
    words: list[str] = field(default_factory=list)
    replies: int = 0
    failures: list[str] = field(default_factory=list)


class SoundTime:
    """Stands in front of a session's models, counts what was heard and knows whether they are at work."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._heard = 0
        self._at_work = 0
        self._something_done = asyncio.Event()

    def clock(self) -> float:
        """Seconds of sound that were listened to."""
        return self._heard / RATE_HZ

    def stages(self) -> Stages:
        """The session's stages, this being its ear and its recogniser."""
        return replace(self._stages, activity=self, turn_end=self, recogniser=self)

    async def heard(self, position: int) -> None:
        """Returns once sound up to this sample was listened to and no model works on it any more."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self._heard < position or self._at_work:
                    self._something_done.clear()
                    await self._something_done.wait()
        except TimeoutError as error:
            raise EchoicError(
                f"a model has not come back for {PATIENCE_S:.0f} s, {self.clock():.1f} s in"
            ) from error

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        """The ear; see VoiceActivity."""
        with self._working():
            try:
                return await self._stages.activity.push(frames)
            finally:
                self._heard += sum(map(len, frames))

    def reset(self) -> None:
        """The ear; see VoiceActivity."""
        self._stages.activity.reset()

    async def judge(self, sound: Samples) -> float:
        """The judge of the turn's end; see TurnEnd."""
        with self._working():
            return await self._stages.turn_end.judge(sound)

    async def recognise(self, sound: Samples, **known: Any) -> Hypothesis:
        """The recogniser; see Recogniser."""
        with self._working():
            return await self._stages.recogniser.recognise(sound, **known)

    @contextmanager
    def _working(self) -> Iterator[None]:
        self._at_work += 1
        try:
            yield
        finally:
            self._at_work -= 1
            self._something_done.set()


class Ledger:
    """Books what a session tells under the sound in which the turn began."""

    def __init__(self, preroll_ms: float) -> None:
        self.heard: dict[str, Heard] = {}
        self._preroll_ms = preroll_ms
        self._starts_ms: list[float] = []
        self._names: list[str] = []
        self._turns: dict[int, Heard] = {}

    def begin(self, sound: Sound, at_s: float) -> None:
        """From here on, this sound."""
        self._starts_ms.append(at_s * 1000)
        self._names.append(sound.name)
        self.heard.setdefault(sound.name, Heard()).seconds += sound.duration_s

    def push(self, event: SessionEvent) -> None:
        """Take what the session tells."""
        match event:
            case UserStarted(turn, start_ms):
                place = bisect_right(self._starts_ms, start_ms + self._preroll_ms) - 1
                self._turns[turn] = self.heard[self._names[place]]
                self._turns[turn].turns += 1
            case UserTranscript(turn, text):
                self._turns[turn].words += text.split()
            case TurnFailed(turn, error):
                self._turns[turn].failures.append(error)
            case ReplyStarted(turn):
                self._turns[turn].replies += 1


async def listen(
    stages: Stages, config: Config, sounds: Iterable[Sound], progress: Callable[[float], None]
) -> dict[str, Heard]:
    """Let one session hear the sounds, one after the other, then silence; what it made of each, by name.

    A reply is counted and cut at once. ``progress`` is told the seconds heard. Raises EchoicError when a model
    does not come back.
    """
    time = SoundTime(stages)
    session, ledger = Session(time.stages(), config, time.clock), Ledger(config.listen.preroll_ms)
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as work:
            work.create_task(session.run())
            work.create_task(_keep(session, ledger))
            await _play(session, time, _booked(sounds, ledger), progress)
            await session.close()
    except* EchoicError as failures:
        failure = failures.exceptions[0]
    if failure is not None:
        raise failure
    return ledger.heard


def _booked(sounds: Iterable[Sound], ledger: Ledger) -> Iterator[Samples]:
    at_s = 0.0
    for sound in sounds:
        ledger.begin(sound, at_s)
        at_s += sound.duration_s
        yield sound.samples
    yield np.zeros(round(LAST_SILENCE_S * RATE_HZ), np.float32)


async def _play(
    session: Session, time: SoundTime, sounds: Iterable[Samples], progress: Callable[[float], None]
) -> None:
    position = 0
    for samples in sounds:
        for start in range(0, len(samples), VAD_FRAME_SAMPLES):
            piece = samples[start : start + VAD_FRAME_SAMPLES]
            position += len(piece)
            await session.hear(piece)
            await time.heard(position // VAD_FRAME_SAMPLES * VAD_FRAME_SAMPLES)
        progress(position / RATE_HZ)


async def _keep(session: Session, ledger: Ledger) -> None:
    async for event in session.events:
        ledger.push(event)
        if isinstance(event, ReplyStarted):
            with suppress(ChannelClosed):  # the last sound is over
                await session.cancel()


def render_quiet(heard: dict[str, Heard]) -> Table:
    """A row for every kind of sound, and their sum."""
    table = titled("Nobody speaks")
    table.add_column("sound", no_wrap=True)
    for column in ("minutes", "turns opened", "words", "replies"):
        table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    table.add_column("heard", overflow="ellipsis", no_wrap=True, max_width=MOST_SHOWN)
    for name, one in heard.items():
        table.add_row(name, *_cells(one), " ".join(one.words))
    table.add_section()
    table.add_row("all", *_cells(total(heard)), "", style="bold")
    return table


def total(heard: dict[str, Heard]) -> Heard:
    """Everything that was heard as one."""
    whole = Heard()
    for one in heard.values():
        whole.seconds += one.seconds
        whole.turns += one.turns
        whole.words += one.words
        whole.replies += one.replies
        whole.failures += one.failures
    return whole


def _cells(one: Heard) -> list[str]:
    return [f"{one.seconds / 60:.1f}", str(one.turns), str(len(one.words)), str(one.replies)]
