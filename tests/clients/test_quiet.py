"""Nobody speaks: a whole session on the sound's own time, with scripted stages and with the real models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audio.resample import resample
from audio.wav import read_recording
from clients import quiet
from clients.cli import main
from clients.quiet import Heard, listen, total
from clients.sounds import Sound
from pipeline.config import Config
from pipeline.ports import RATE_HZ, EchoicError
from pipeline.session import Stages
from pipeline.store import Store
from server.app import Server
from tests.pipeline.conversation import (
    SCALE,
    Say,
    ScriptedActivity,
    ScriptedModel,
    ScriptedRecogniser,
    ScriptedSpeech,
    ScriptedTurnEnd,
)

virtual = pytest.mark.looptime(start=0)


def sounds(*lengths_s: float) -> list[Sound]:
    """Sounds named a, b, c ..., whose samples carry their own time, as scripted stages want it."""
    ends = np.cumsum([0, *(round(length * RATE_HZ) for length in lengths_s)])
    return [
        Sound(name, np.arange(begin, end, dtype=np.float32) / SCALE)
        for name, begin, end in zip("abcdef", ends, ends[1:], strict=False)
    ]


def stages(*script: Say) -> Any:
    said = list(script)
    speech: Any = ScriptedSpeech(0.02)
    ear, words = ScriptedActivity(said), ScriptedRecogniser(said, 0.08)
    return Stages(ear, ScriptedTurnEnd(0.97, 0.06), words, model(), speech, lambda: ear)


def model() -> ScriptedModel:
    return ScriptedModel("It is ten", 0.015)


async def made_of(scripted: Any, *lengths_s: float) -> dict[str, Heard]:
    return await listen(scripted, Config(), sounds(*lengths_s), lambda _seconds: None)


@virtual
async def test_sound_without_speech_opens_no_turn() -> None:
    heard = await made_of(stages(), 2.0, 3.0)
    assert heard == {"a": Heard(seconds=2.0), "b": Heard(seconds=3.0)}


@virtual
async def test_a_cough_opens_a_turn_without_words_and_without_a_reply() -> None:
    heard = await made_of(stages(Say(3.0, 3.5)), 2.0, 3.0)
    assert (heard["a"].turns, heard["b"]) == (0, Heard(seconds=3.0, turns=1))


@virtual
async def test_words_and_replies_are_booked_under_the_sound_that_was_taken_for_speech() -> None:
    heard = await made_of(stages(Say(2.1, 3.0, "Thank you"), Say(7.0, 8.0, "Bye")), 2.0, 4.0, 4.0)
    assert heard["a"].turns == 0
    assert (heard["b"].words, heard["b"].replies) == (["Thank", "you"], 1)
    assert (heard["c"].words, heard["c"].replies) == (["Bye"], 1)


@virtual
async def test_a_turn_at_the_very_end_is_still_ended_and_counted() -> None:
    heard = await made_of(stages(Say(1.0, 2.0, "Hello")), 2.0)
    assert total(heard).words == ["Hello"]


@virtual
async def test_the_sound_waits_for_a_slow_recogniser() -> None:
    """A recogniser that takes five seconds hears the words as one that takes none."""
    slow = stages(Say(1.0, 2.0, "Hello you"))
    slow.recogniser._cost = 5.0
    assert (await made_of(slow, 4.0))["a"].words == ["Hello", "you"]


@virtual
async def test_a_recogniser_that_fails_is_told_under_its_sound() -> None:
    failing = stages(Say(1.0, 2.0, "Hello"))
    failing.recogniser.failures = 99
    assert "scripted failure" in (await made_of(failing, 4.0))["a"].failures[0]


@virtual
async def test_a_model_that_never_comes_back_ends_the_check() -> None:
    stuck = stages(Say(1.0, 2.0, "Hello"))
    stuck.recogniser._cost = 10 * quiet.PATIENCE_S
    with pytest.raises(EchoicError, match=r"has not come back for 60 s, 1\.\d s in"):
        await made_of(stuck, 4.0)


@virtual
async def test_progress_is_told_in_seconds_of_sound() -> None:
    told: list[float] = []
    await listen(stages(), Config(), sounds(1.0, 2.0), told.append)
    assert told[:2] == pytest.approx([1.0, 3.0])


@pytest.mark.models
async def test_the_real_ear_hears_a_human_reading(store: Store) -> None:
    """Or else its hearing nothing would mean nothing."""
    chunk = read_recording(store.path("demo-recordings") / "beckett.wav")
    reading = resample(chunk.samples[: 3 * chunk.rate_hz], chunk.rate_hz, RATE_HZ)
    async with Server(Config(), store=store) as server:
        heard = await listen(
            server.new_stages(), server.config, [Sound("a reading", reading)], lambda _seconds: None
        )
    assert [word.strip(".,") for word in heard["a reading"].words[:2]] == ["Ever", "tried"]
    assert heard["a reading"].replies == 1


@pytest.mark.models
def test_the_real_ear_makes_nothing_of_silence_and_noise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "quiet", "--minutes", "0.4"]) == 0
    assert "white noise" in capsys.readouterr().out


def test_no_minutes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "quiet", "--minutes", "0"]) == 2
    assert "--minutes 0: expected more than 0" in capsys.readouterr().err
