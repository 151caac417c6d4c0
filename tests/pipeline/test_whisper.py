"""Recognition at the sound's real length: as good as the padded way, quiet in silence, never repeating itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Barrier, Event
from unittest.mock import Mock

import numpy as np
import pytest

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends.whisper import LANES, WhisperRecogniser
from pipeline.ports import RATE_HZ, InputError, Samples
from pipeline.store import Store

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def best_of_times(store: Store) -> Samples:
    recording = read_recording(store.path("demo-recordings") / "two_cities.wav")
    return resample(recording.samples, recording.rate_hz, RATE_HZ)[: int(4.7 * RATE_HZ)]


def words(text: str) -> list[str]:
    return "".join(letter for letter in text.lower() if letter.isalpha() or letter == " ").split()


async def test_a_human_voice_is_understood(recogniser: WhisperRecogniser, best_of_times: Samples) -> None:
    heard = await recogniser.recognise(best_of_times, final=True)
    assert words(heard.text) == "it was the best of times it was the worst of times".split()


async def test_it_hears_what_the_padded_way_hears(recogniser: WhisperRecogniser, best_of_times: Samples) -> None:
    fast = await recogniser.recognise(best_of_times, final=True)
    padded = await recogniser.recognise_padded(best_of_times)
    assert words(fast.text) == words(padded.text)


async def test_known_words_stay_and_the_rest_is_added(
    recogniser: WhisperRecogniser, best_of_times: Samples
) -> None:
    heard = await recogniser.recognise(best_of_times, prefix="It was the best")
    assert heard.text.startswith("It was the best")
    assert words(heard.text)[-1] == "times"


async def test_no_sound_and_silence_hold_no_words(recogniser: WhisperRecogniser) -> None:
    for samples in (0, 10, RATE_HZ):
        assert (await recogniser.recognise(np.zeros(samples, np.float32), final=True)).text == ""


async def test_words_end_in_the_order_they_are_said(recogniser: WhisperRecogniser, best_of_times: Samples) -> None:
    heard = await recogniser.recognise(best_of_times, timed=True)
    assert len(heard.ends) == len(heard.text.split())
    assert list(heard.ends) == sorted(heard.ends)
    assert heard.ends[-1] <= len(best_of_times)


async def test_a_pass_that_nobody_waits_for_any_more_is_not_decoded(
    recogniser: WhisperRecogniser, best_of_times: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding, given_up, decoded = Event(), Event(), Mock()
    monkeypatch.setattr(recogniser.ear, "encode", lambda sound: (encoding.set(), given_up.wait(5)))
    monkeypatch.setattr(recogniser, "question", decoded)
    hearing = asyncio.create_task(recogniser.recognise(best_of_times))
    await asyncio.to_thread(encoding.wait)
    hearing.cancel()
    await asyncio.wait({hearing})
    given_up.set()
    every_lane = Barrier(LANES)
    await asyncio.gather(*(recogniser.worker.run(every_lane.wait) for _ in range(LANES)))
    assert not decoded.called


def test_a_model_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        WhisperRecogniser(tmp_path / "nowhere")
