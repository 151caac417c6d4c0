"""A room without a clock: the same figures on any machine."""

from __future__ import annotations

import asyncio
import io
from importlib.util import find_spec

import numpy as np
import pytest
from rich.console import Console

from audio.echo import WebRtcCanceller
from clients.double_talk import STORIES, Alone, Over, Rehearsal, Scene, render_rehearsals
from clients.echo_bench import VOICE_DB, Setting, as_loud_as_the_voice, human_remark
from clients.realtime import RATE_HZ
from pipeline.backends.silero import SileroModel
from pipeline.config import Config
from pipeline.ports import Hypothesis, Samples, Speech
from pipeline.store import Store
from server.voices.hibari import HibariVoice
from tests.clients.scripted import tone

webrtc = pytest.mark.skipif(
    find_spec("livekit") is None, reason="livekit is not installed: pip install 'echoic[mic]'"
)


class Hears:
    """A recogniser that hears the same words in any sound."""

    async def recognise(self, sound: Samples, **_known: object) -> Hypothesis:
        return Hypothesis("what about tomorrow")


async def story() -> Speech:
    voice = HibariVoice()
    try:
        return await voice.speak(STORIES[0])
    finally:
        voice.close()


@webrtc
@pytest.mark.models
@pytest.mark.parametrize("setting", [Setting(0.0, 200.0), Setting(-6.0, 20.0)])
async def test_it_does_not_pause_for_itself_and_pauses_within_a_second_for_a_human_voice(
    setting: Setting, store: Store
) -> None:
    vad, speech = SileroModel(), await story()
    scene = Scene(setting, WebRtcCanceller(RATE_HZ), vad.open(), Hears(), Config())
    alone = await scene.hear_out(speech)
    over = await scene.speak_over(speech, human_remark(store), 0.0)
    await asyncio.to_thread(vad.close)
    assert (alone.pauses, alone.cuts) == (0, 0)
    assert over.paused_ms is not None
    assert over.paused_ms < 1_000
    assert over.cut_ms is not None
    assert over.heard == "what about tomorrow"


def test_a_remark_is_made_as_loud_as_the_voice_whatever_its_pauses() -> None:
    spoken = np.concatenate((tone(0.5), np.zeros(RATE_HZ, np.float32)))
    level = np.sqrt(np.mean(as_loud_as_the_voice(spoken)[: RATE_HZ // 2] ** 2))
    assert 20 * np.log10(level) == pytest.approx(VOICE_DB, abs=0.1)


def test_the_table_counts_what_got_through_and_how_soon() -> None:
    file = io.StringIO()
    over = [Over("stop", 200.0, None, ""), Over("wait", 400.0, 700.0, "wait")]
    bad = Rehearsal(Setting(-6.0, 20.0), [Alone(90, 3, 64.0, 1, 0)], {6.0: over})
    Console(file=file, width=120).print(render_rehearsals([bad]))
    assert {"-6", "20", "3/90", "64", "1,", "6", "2/2", "300", "1/2", "700"} <= set(file.getvalue().split())
    assert bad.fault
    assert not Rehearsal(Setting(0.0, 20.0), [Alone(90, 3, 32.0, 0, 0)], {0.0: over[1:]}).fault
