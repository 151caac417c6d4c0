"""It does not hear itself, and hears who speaks over it: the bench's trial on the real models, shortened."""

from __future__ import annotations

import asyncio
import io
from importlib.util import find_spec

import numpy as np
import pytest
from rich.console import Console

from audio.echo import WebRtcCanceller
from clients.echo_bench import Outcome, Setting, human_remark, render_echo, run_trial
from clients.microphone import Gate, Microphone
from clients.realtime import RATE_HZ, WIRE
from clients.room import BLOCK_MS, Room
from pipeline.config import Config
from pipeline.store import Store
from server.app import Server
from server.voices.hibari import HibariVoice

webrtc = pytest.mark.skipif(
    find_spec("livekit") is None,
    reason="livekit is not installed: pip install 'echoic[mic]'",
)


async def voice(text: str) -> np.ndarray:
    spoken = HibariVoice()
    try:
        return (await spoken.speak(text)).samples
    finally:
        spoken.close()


def level_after_a_second_db(room: Room, seconds: float) -> float:
    """How loud the microphone's sound is once it was cleaned, when the canceller has had a second to settle."""
    microphone, cleaned = Microphone(Gate(), WebRtcCanceller(RATE_HZ)), b""
    microphone.connect(room)
    for _ in range(round(seconds * 1000 / BLOCK_MS)):
        room.step()
        cleaned += b"".join(microphone.collect(0.0))
    return float(10 * np.log10(np.mean(WIRE.decode(cleaned)[RATE_HZ:] ** 2) + 1e-12))


@webrtc
@pytest.mark.parametrize("gain_db", [0.0, -12.0])
@pytest.mark.parametrize("delay_ms", [20.0, 200.0])
def test_its_own_voice_is_left_far_quieter_than_somebody_in_the_room(gain_db: float, delay_ms: float) -> None:
    sound = asyncio.run(voice("The sea was calm that morning, and the old sailor looked out at the grey horizon."))
    alone, echoing = Room(gain_db, delay_ms), Room(gain_db, delay_ms)
    alone.speak(sound * 10 ** (gain_db / 20), RATE_HZ)  # as loud as the echo
    echoing.playout.push("reply", sound)
    echoing.playout.finish("reply")
    seconds = len(sound) / RATE_HZ
    assert level_after_a_second_db(echoing, seconds) < level_after_a_second_db(alone, seconds) - 20


@webrtc
@pytest.mark.models
@pytest.mark.timeout(300)
async def test_a_reply_is_not_interrupted_by_itself_but_by_a_human_voice(store: Store) -> None:
    async with Server(Config(), store=store) as server:
        outcome = await run_trial(
            Setting(0.0, 100.0),
            server.realtime_url,
            WebRtcCanceller(RATE_HZ),
            human_remark(store),
            replies=2,
            interruptions=1,
        )
    assert (outcome.replies, outcome.cut, outcome.turns, outcome.words) == (2, 0, 0, [])
    assert None not in outcome.silent_ms


def test_the_table_shows_what_got_through_and_what_it_heard_of_itself() -> None:
    file = io.StringIO()
    bad = Outcome(Setting(-6.0, 20.0), 10, cut=2, turns=3, words=["the sea"], silent_ms=[400.0, None])
    Console(file=file, width=100).print(render_echo([bad]))
    assert {"-6", "20", "10", "2", "3", "1/2", "400", "the", "sea"} <= set(file.getvalue().split())
    assert bad.fault
    assert not Outcome(Setting(0.0, 20.0), 10, silent_ms=[400.0]).fault
