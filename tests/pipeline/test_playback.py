"""Playback: at the pace of hearing, paused to the sample, cut without a click."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from pipeline.config import PlaybackConfig
from pipeline.frames import SpokenAudio, WordTime
from pipeline.playback import Playback
from pipeline.timing import loop_clock

pytestmark = pytest.mark.looptime(start=0)

RATE_HZ = 24_000


class Client:
    """Takes the slices and remembers when."""

    def __init__(self, config: PlaybackConfig | None = None) -> None:
        self.slices: list[tuple[float, bytes]] = []
        self.playback = Playback(config or PlaybackConfig(), loop_clock, self._take, RATE_HZ)

    async def _take(self, pcm: bytes, rate_hz: int) -> None:
        self.slices.append((loop_clock(), pcm))

    @property
    def samples(self) -> np.ndarray:
        return np.frombuffer(b"".join(pcm for _, pcm in self.slices), "<i2")


async def speech(*seconds: float, every_s: float = 0.0) -> AsyncIterator[SpokenAudio]:
    """Pieces of sound, each at its own level and a word of its own."""
    start = 0
    for number, length in enumerate(seconds, 1):
        await asyncio.sleep(every_s)
        count = int(length * RATE_HZ)
        word = WordTime(f"word{number}", start, start + count)
        start += count
        yield SpokenAudio(np.full(count, 1000 * number, "<i2").tobytes(), RATE_HZ, (word,))


async def test_all_of_it_is_played_and_nothing_is_added() -> None:
    client = Client()
    await client.playback.play(speech(0.5, 0.33, 0.007))
    assert len(client.samples) == int((0.5 + 0.33 + 0.007) * RATE_HZ)


async def test_it_leaves_at_the_pace_it_is_heard_and_never_further_ahead_than_the_lead() -> None:
    client = Client()
    await client.playback.play(speech(2.0))
    sent = 0.0
    for at, pcm in client.slices:
        sent += len(pcm) / 2 / RATE_HZ
        assert sent - at <= 0.12 + 0.02 + 1e-6
    assert loop_clock() == pytest.approx(2.0)


async def test_a_pause_fades_within_a_slice_and_resuming_goes_on_from_the_same_sample() -> None:
    client = Client()
    playing = asyncio.create_task(client.playback.play(speech(1.0)))
    await asyncio.sleep(0.5)
    client.playback.pause()
    await asyncio.sleep(1.0)
    silent_from = client.slices[-1][0]
    client.playback.resume()
    await playing
    assert silent_from <= 0.52
    assert len(client.samples) == RATE_HZ + RATE_HZ * 20 // 1000  # the faded slice is played again


async def test_a_fade_ends_in_silence_and_the_way_back_begins_in_it() -> None:
    client = Client()
    playing = asyncio.create_task(client.playback.play(speech(1.0)))
    await asyncio.sleep(0.5)
    client.playback.pause()
    await asyncio.sleep(0.1)
    faded = np.frombuffer(client.slices[-1][1], "<i2")
    client.playback.resume()
    await playing
    after = np.frombuffer(
        client.slices[client.slices.index(next(s for s in client.slices if s[0] > 0.59))][1], "<i2"
    )
    assert (faded[0], faded[-1], after[0]) == (1000, 0, 0)


async def test_what_was_heard_is_what_has_had_the_time_to_sound() -> None:
    client = Client()
    playing = asyncio.create_task(client.playback.play(speech(0.5, 0.5, 0.5)))
    await asyncio.sleep(1.1)
    assert client.playback.heard_text("word1 word2 word3 word4") == "word1 word2"
    playing.cancel()
    await asyncio.wait([playing])


async def test_a_pause_adds_nothing_to_what_was_heard() -> None:
    client = Client()
    playing = asyncio.create_task(client.playback.play(speech(0.5, 0.5, 0.5)))
    await asyncio.sleep(0.3)
    client.playback.pause()
    await asyncio.sleep(5)
    assert client.playback.heard_text("word1 word2 word3 word4") == ""
    client.playback.resume()
    await playing
    assert client.playback.heard_text("Word1, word2, word3.") == "Word1, word2, word3."


async def test_a_client_that_played_less_of_it_heard_less_of_it() -> None:
    client = Client()
    await client.playback.play(speech(0.5, 0.5, 0.5))
    assert client.playback.heard_text("whole", limit_ms=1000) == "word1 word2"


async def test_nothing_is_heard_after_it_was_stopped() -> None:
    client = Client()
    playing = asyncio.create_task(client.playback.play(speech(0.5, 0.5, 0.5)))
    await asyncio.sleep(1.1)
    client.playback.stop()
    playing.cancel()
    await asyncio.wait([playing])
    await asyncio.sleep(5)
    assert client.playback.heard_text("whole") == "word1 word2"


async def test_without_word_times_speech_is_taken_to_be_even() -> None:
    async def wordless() -> AsyncIterator[SpokenAudio]:
        yield SpokenAudio(bytes(RATE_HZ * 4), RATE_HZ)

    client = Client()
    await client.playback.play(wordless())
    assert client.playback.heard_text("one two three four", limit_ms=1000) == "one two"


async def test_a_producer_that_is_late_makes_a_gap_that_is_counted() -> None:
    client = Client()
    await client.playback.play(speech(0.2, 0.2, 0.2, every_s=0.5))
    assert client.playback.gaps == 2


async def test_a_producer_ahead_of_time_makes_no_gap() -> None:
    client = Client()
    await client.playback.play(speech(0.5, 0.5, 0.5, every_s=0.1))
    assert client.playback.gaps == 0
