"""The self-test on virtual time: a turn through scripted stages, when nobody is there, and what it finds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.config import Config
from pipeline.ports import Hypothesis, Samples, StageError
from pipeline.session import Session, Stages
from pipeline.timing import loop_clock
from server.self_test import DEADLINE_S, QUIET_S, RETRY_S, SelfTest
from tests.pipeline.conversation import ScriptedModel, ScriptedSpeech, ScriptedTurnEnd
from tests.server.test_speech import ToneVoice

pytestmark = pytest.mark.looptime(start=0)


class Ear:
    """Takes every sound for speech, and hears the same words in it."""

    def __init__(self, words: str) -> None:
        self.words = words
        self.fails = False

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        return [0.95 if frame.any() else 0.02 for frame in frames]

    def reset(self) -> None: ...

    async def recognise(self, sound: Samples, **_known: Any) -> Hypothesis:
        if self.fails:
            raise StageError("speech recognition", "scripted failure")
        return Hypothesis(self.words, -0.1)


class Bench:
    """A self-test of stages that can be broken."""

    def __init__(self, words: str = "What time is it?") -> None:
        self.ear, self.model, self.speech = Ear(words), ScriptedModel("It is ten", 0.015), ScriptedSpeech(0.02)
        self.sessions = 0
        self.voice = ToneVoice()
        self.test = SelfTest(self._session, lambda: self.voice)

    def _session(self) -> Session:
        self.sessions += 1
        stages: Any = Stages(
            self.ear, ScriptedTurnEnd(0.97, 0.06), self.ear, self.model, self.speech, lambda: self.ear
        )
        return Session(stages, Config(), loop_clock)

    async def run(self, seconds: float, every_s: float = 600.0, idle: bool = True) -> None:
        running = asyncio.create_task(self.test.run(every_s, lambda: idle))
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.wait([running])


async def test_a_question_that_is_answered_aloud_passes() -> None:
    bench = Bench()
    await bench.test.take()
    assert bench.test.last is not None
    assert bench.test.last.passed
    assert 0 < bench.test.last.answered_in_ms < 500


async def test_what_it_takes_is_given_back() -> None:
    bench, before = Bench(), asyncio.all_tasks()
    await bench.test.take()
    assert asyncio.all_tasks() == before
    assert not bench.speech.open_contexts


@pytest.mark.parametrize(
    ("broken", "told"),
    [("ear", "speech recognition"), ("model", "language model"), ("speech", "speech")],
)
async def test_a_broken_stage_is_named(broken: str, told: str) -> None:
    bench = Bench()
    getattr(bench, broken).fails = True
    await bench.test.take()
    assert bench.test.last is not None
    assert bench.test.last.failed_at == told


async def test_a_recogniser_that_hears_no_words_fails() -> None:
    bench = Bench(words="")
    await bench.test.take()
    assert bench.test.last is not None
    assert not bench.test.last.passed


async def test_a_model_that_never_answers_fails_in_time() -> None:
    bench = Bench()
    bench.model.cost = 10_000
    await bench.test.take()
    assert bench.test.last is not None
    assert not bench.test.last.passed
    assert loop_clock() < DEADLINE_S + 1


async def test_a_bug_is_a_failed_test_and_not_the_end_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.voice = None  # type: ignore[assignment]
    await bench.test.take()
    assert bench.test.last is not None
    assert bench.test.last.failed_at == "an unexpected failure"
    assert "AttributeError" in caplog.text


async def test_it_begins_once_nobody_was_there_for_a_while_and_comes_again() -> None:
    bench = Bench()
    await bench.run(QUIET_S - 0.5)
    assert bench.sessions == 0
    await bench.run(30, every_s=10)
    assert bench.sessions == 3


async def test_a_test_that_failed_is_repeated_sooner() -> None:
    bench = Bench()
    bench.model.fails = True
    await bench.run(QUIET_S + 2 * RETRY_S + 10)
    assert bench.sessions == 3


async def test_nobody_who_is_there_is_disturbed() -> None:
    bench = Bench()
    await bench.run(1_000, idle=False)
    assert bench.sessions == 0


async def test_somebody_who_comes_interrupts_it_and_the_last_outcome_stays() -> None:
    bench = Bench()
    await bench.test.take()
    before, testing = bench.test.last, asyncio.create_task(bench.test.take())
    await asyncio.sleep(0.2)
    bench.test.interrupt()
    await testing
    assert bench.sessions == 2
    assert bench.test.last is before
