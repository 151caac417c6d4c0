"""The built-in voice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from audio.format import samples_to_ms
from pipeline.ports import InputError, Samples, Speech, StageError
from server.voices.hibari import HibariVoice

AUDIBLE = 10 ** (-55 / 20)


@pytest.fixture(scope="module")
def voice() -> Iterator[HibariVoice]:
    voice = HibariVoice()
    yield voice
    voice.close()


def silence_ms(samples: Samples) -> tuple[float, float]:
    """How long nothing is heard before and after the sound, in steps of 5 ms."""
    levels = np.sqrt(np.mean(samples[: len(samples) // 120 * 120].reshape(-1, 120) ** 2, axis=1))
    loud = np.flatnonzero(levels > AUDIBLE)
    return loud[0] * 5.0, (len(levels) - 1 - loud[-1]) * 5.0


def end_of(speech: Speech, word: str) -> int:
    last = speech.text.index(word) + len(word) - 1
    return speech.starts_ms[last] + speech.durations_ms[last]


async def test_the_same_phrase_is_the_same_sound(voice: HibariVoice) -> None:
    first, second = await voice.speak("Good morning."), await voice.speak("Good morning.")
    assert np.array_equal(first.samples, second.samples)
    assert first.rate_hz == 24_000
    assert first.samples.dtype == np.float32


@pytest.mark.parametrize("phrase", ["Hello there.", "First of all,", "The cat sat"])
async def test_sound_begins_at_once_without_a_click(voice: HibariVoice, phrase: str) -> None:
    speech = await voice.speak(phrase)
    assert silence_ms(speech.samples)[0] <= 10
    assert speech.samples[0] == 0


async def test_the_gap_at_the_end_depends_on_what_ends_there(voice: HibariVoice) -> None:
    gaps = [silence_ms((await voice.speak(text)).samples)[1] for text in ("It is so.", "It is so,", "It is so")]
    assert gaps == pytest.approx([150, 100, 40], abs=10)


@pytest.mark.parametrize("phrase", ["", " \n ", "...", "—", "?!", "日本語"])
async def test_what_cannot_be_said_is_silence(voice: HibariVoice, phrase: str) -> None:
    speech = await voice.speak(phrase)
    assert (len(speech.samples), speech.text) == (0, phrase)
    assert set(speech.starts_ms) | set(speech.durations_ms) <= {0}


@pytest.mark.parametrize("phrase", ["Paris. It's big,  I think. ", "\n\nA\n\nA", "Well — yes", "$9.99 at 10:30"])
async def test_the_alignment_covers_the_sound_and_never_runs_back(voice: HibariVoice, phrase: str) -> None:
    speech = await voice.speak(phrase)
    ends = [start + length for start, length in zip(speech.starts_ms, speech.durations_ms, strict=True)]
    assert speech.text == phrase
    assert speech.starts_ms[0] == 0
    assert all(end == start for end, start in zip(ends, speech.starts_ms[1:], strict=False))
    assert min(speech.durations_ms) >= 0
    assert ends[-1] == pytest.approx(samples_to_ms(len(speech.samples), 24_000), abs=1)


async def test_a_second_sentence_begins_where_its_sound_does(voice: HibariVoice) -> None:
    alone, both = await voice.speak("It rains. "), await voice.speak("It rains. We stay.")
    assert both.starts_ms[10] == pytest.approx(samples_to_ms(len(alone.samples), 24_000), abs=1)


async def test_long_words_take_longer(voice: HibariVoice) -> None:
    speech = await voice.speak("I saw an extraordinary cat.")
    edges = [0, *(end_of(speech, word) for word in ("I", "saw", "an", "extraordinary", "cat."))]
    lengths = [end - start for start, end in pairwise(edges)]
    assert lengths[3] == max(lengths)


async def test_an_address_is_read_out_with_its_dots(voice: HibariVoice) -> None:
    address, words = await voice.speak("Go to example.com."), await voice.speak("Go to example dot com.")
    assert np.array_equal(address.samples, words.samples)


async def test_a_faster_voice_is_shorter(voice: HibariVoice) -> None:
    normal, fast = await voice.speak("One, two, three."), await voice.speak("One, two, three.", speed=1.2)
    assert len(fast.samples) < len(normal.samples)


async def test_an_impossible_speed_is_refused(voice: HibariVoice) -> None:
    with pytest.raises(InputError, match="speed"):
        await voice.speak("Hello.", speed=9.0)


def test_an_unknown_voice_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"nobody.*heart"):
        HibariVoice("nobody")


def test_a_voice_that_is_not_on_this_machine_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path_factory.mktemp("voices")))
    with pytest.raises(InputError, match="--voice emma"):
        HibariVoice("emma")


async def test_a_failing_model_fails_the_stage(voice: HibariVoice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hibari.Hibari.from_ids", lambda *_: 1 / 0)
    with pytest.raises(StageError, match=r"heart.*division"):
        await voice.speak("Hello.")
