"""``echoic bench echo``: does it hear itself, and does it still hear somebody who speaks over it?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from audio.echo import Canceller
from audio.resample import resample
from audio.wav import read_recording
from clients.hearing import first_audible
from clients.interruptions import Remark
from clients.microphone import Gate
from clients.realtime import RATE_HZ, RealtimeClient, connect
from clients.room import Room
from clients.tables import titled
from clients.talk import Talk
from clients.view import Line, View
from pipeline.interruption import Interruption
from pipeline.store import Store
from pipeline.timing import loop_clock

SUBJECTS = ("sea", "moon", "forest", "railway", "kitchen", "mountain", "river", "winter", "library", "island")
READING = ("two_cities.wav", 0.9, 4.55)  # file, first and last second
VOICE_DB = -26.5  # of the built-in voice; who speaks over it is as loud, so that 0 dB of echo are as loud as he
INSTRUCTIONS = "You are a storyteller. You tell a story in two or three sentences, in plain words."
LISTENED_MS = 1500.0  # to a reply, before somebody speaks over it
REPLY_S, SILENT_S = 60.0, 6.0
PAUSE_S = 1.0  # after a reply, for an echo that is taken for a turn
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Setting:
    """How loud the echo is against what is played, and how late."""

    gain_db: float
    delay_ms: float


@dataclass(slots=True)
class Outcome:
    """What happened in one room.

    ``turns`` that nobody began, with their ``words``; ``cut`` and ``paused`` replies to which nobody had spoken;
    ``silent_ms`` from the onset of each real interruption to silence, None where it did not get through.
    """

    setting: Setting
    replies: int = 0
    cut: int = 0
    paused: int = 0
    turns: int = 0
    words: list[str] = field(default_factory=list)
    silent_ms: list[float | None] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    @property
    def fault(self) -> bool:
        """Whether it heard itself, or did not hear somebody else."""
        return bool(self.cut or self.turns or None in self.silent_ms)


class Witness:
    """A screen that remembers what the user is said to have said."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def add(self, line: Line) -> None:
        """Keep what was heard."""
        if line.who == "you":
            self.words.append(line.text)

    def update(self, view: View) -> None:
        """Nothing to draw."""


class Trial:
    """One talk in one simulated room, in real time."""

    def __init__(self, setting: Setting, client: RealtimeClient, canceller: Canceller | None) -> None:
        self.outcome = Outcome(setting)
        self._client = client
        self._room = Room(setting.gain_db, setting.delay_ms)
        self._witness = Witness()
        self._talk = Talk(client, lambda _again: self._room, self._witness, Gate(), canceller)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Let time pass in the room for as long as the block runs."""
        async with asyncio.TaskGroup() as work:
            passing = work.create_task(self._room.run())
            talking = work.create_task(self._talk.run())
            await self._client.configure(instructions=INSTRUCTIONS)
            await asyncio.sleep(PAUSE_S)
            yield
            self._talk.stop()
            await talking
            passing.cancel()

    async def listen(self, subject: str) -> None:
        """A reply that nobody speaks over."""
        before = self._counts()
        await self._ask(subject)
        await self._until(self._is_over, REPLY_S)
        await asyncio.sleep(PAUSE_S)
        outcome, after = self.outcome, self._counts()
        outcome.replies += 1
        outcome.cut += after[0] - before[0]
        outcome.paused += after[1] - before[1]
        outcome.turns += after[2] - before[2]
        outcome.words, self._witness.words = [*outcome.words, *self._witness.words], []

    async def interrupt(self, subject: str, remark: Remark) -> None:
        """A reply that somebody speaks over."""
        await self._ask(subject)
        speaker = self._talk.loudspeaker
        await self._until(lambda: speaker.playout.played_ms(speaker.spoken.item) > LISTENED_MS, REPLY_S)
        cut_before = speaker.interruptions
        self._room.speak(remark.samples, RATE_HZ)
        spoken_at = loop_clock() + remark.onset_s
        through = await self._until(
            lambda: speaker.interruptions > cut_before and not speaker.playout.busy, SILENT_S
        )
        self.outcome.silent_ms.append((loop_clock() - spoken_at) * 1000 if through else None)
        await self._until(self._is_over, REPLY_S)
        await asyncio.sleep(PAUSE_S + len(remark.samples) / RATE_HZ)
        await self._until(self._is_over, REPLY_S)  # the answer to the remark
        self.outcome.heard += self._witness.words
        self._witness.words = []

    async def _ask(self, subject: str) -> None:
        before = len(self._talk.hearing.replies)
        await self._client.say(f"Tell me a story about the {subject}.")
        await self._until(lambda: len(self._talk.hearing.replies) > before, REPLY_S)

    def _is_over(self) -> bool:
        return self._talk.hearing.open_reply is None and not self._talk.loudspeaker.playout.busy

    def _counts(self) -> tuple[int, int, int]:
        speaker, hearing = self._talk.loudspeaker, self._talk.hearing
        return speaker.interruptions, speaker.pauses, hearing.speech_starts

    async def _until(self, happens: Callable[[], bool], patience_s: float) -> bool:
        give_up_at = loop_clock() + patience_s
        while not happens() and loop_clock() < give_up_at:  # noqa: ASYNC110  # sound makes no event
            await asyncio.sleep(LOOK_S)
        return happens()


def human_remark(store: Store) -> Remark:
    """A human voice, reading a few words as loudly as the built-in voice speaks."""
    chunk = read_recording(store.path("demo-recordings") / READING[0])
    first, last = (round(at_s * chunk.rate_hz) for at_s in READING[1:])
    samples = as_loud_as_the_voice(resample(chunk.samples[first:last], chunk.rate_hz, RATE_HZ))
    onset = first_audible(samples) or 0
    return Remark(READING[0], samples, onset / RATE_HZ, Interruption.WORDS)


def as_loud_as_the_voice(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Speech ``[n]`` at 24 kHz at the level of the built-in voice, pauses left out of account."""
    block = RATE_HZ // 50
    energies = np.mean(samples[: len(samples) // block * block].reshape(-1, block) ** 2, axis=1)
    spoken = energies[energies > energies.max() / 1000]
    return samples * np.float32(10 ** (VOICE_DB / 20) / np.sqrt(np.mean(spoken)))


async def run_trial(
    setting: Setting,
    url: str,
    canceller: Canceller | None,
    remark: Remark,
    *,
    replies: int,
    interruptions: int,
) -> Outcome:
    """Some replies that nobody speaks over, then some that somebody does, in one session."""
    async with connect(url, timing=True) as client:
        trial = Trial(setting, client, canceller)
        async with trial.open():
            for number in range(replies):
                await trial.listen(SUBJECTS[number % len(SUBJECTS)])
            for number in range(interruptions):
                await trial.interrupt(SUBJECTS[-1 - number % len(SUBJECTS)], remark)
        return trial.outcome


def render_echo(outcomes: Sequence[Outcome]) -> Table:
    """A row for each room."""
    table = titled(
        "Hearing itself",
        "Cut, paused, turns: while nobody spoke; all should be 0. Through: how many of the real\n"
        "interruptions silenced it, and the median ms from their onset to silence.",
    )
    for column in ("echo dB", "late ms", "replies", "cut", "paused", "turns", "through", "after ms"):
        table.add_column(column, justify="right")
    table.add_column("heard of itself", style="yellow")
    for outcome in outcomes:
        silent = [ms for ms in outcome.silent_ms if ms is not None]
        table.add_row(
            f"{outcome.setting.gain_db:g}",
            f"{outcome.setting.delay_ms:g}",
            *map(str, (outcome.replies, outcome.cut, outcome.paused, outcome.turns)),
            f"{len(silent)}/{len(outcome.silent_ms)}",
            f"{np.median(silent):.0f}" if silent else "-",
            " / ".join(outcome.words) or "-",
        )
    return table
