"""The decoder with a guess: CTranslate2's own text, and the same one whatever was guessed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends.whisper import WhisperRecogniser
from pipeline.backends.whisper_decoder import continued
from pipeline.backends.whisper_weights import DECODER_FORM, decoding
from pipeline.ports import RATE_HZ, Hypothesis, Samples
from pipeline.prepared import Prepared
from pipeline.store import Store

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def stock(store: Store) -> Iterator[WhisperRecogniser]:
    """The same with CTranslate2's decoder, as exact as it goes: in int8 its certainty is a tenth off."""
    loaded = WhisperRecogniser(store.path("whisper-base"), compute_type="float32")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def recordings(store: Store) -> dict[str, Samples]:
    found = {path.stem: read_recording(path) for path in store.path("demo-recordings").glob("*.wav")}
    return {name: resample(one.samples, one.rate_hz, RATE_HZ) for name, one in found.items()}


def words(text: str) -> list[str]:
    """The words alone: where a full stop is as likely as a comma, the rounding decides."""
    return "".join(letter for letter in text.lower() if letter.isalpha() or letter == " ").split()


@pytest.mark.parametrize(
    ("text", "guess", "wrong", "tried"),
    [
        ([1, 2, 9], [1, 2, 3, 4, 5], [3, 4, 5], [4, 5]),  # another word
        ([1, 2, 4], [1, 2, 3, 4, 5], [3, 4, 5], [5]),  # one word less
        ([1, 2, 9, 3, 4], [1, 2, 3, 4, 5], [], [5]),  # a word more, and on as before
        ([1, 2, 3, 9], [1, 2, 3, 5], [5], [5]),  # a longer sentence, its end the same
        ([1, 2, 3, 1, 2], [], [], [3, 1, 2]),  # the text starts over
        ([1], [], [], []),
    ],
)
def test_what_is_tried_next_is_what_is_left_of_the_guess(
    text: list[int], guess: list[int], wrong: list[int], tried: list[int]
) -> None:
    assert continued(text, guess, wrong) == tried


@pytest.mark.parametrize("seconds", [2.0, 2.5, 3.0])
async def test_it_writes_what_ctranslate2_writes(
    recogniser: WhisperRecogniser, stock: WhisperRecogniser, recordings: dict[str, Samples], seconds: float
) -> None:
    for sound in recordings.values():
        cut = sound[: int(seconds * RATE_HZ)]
        heard, expected = await recogniser.recognise(cut), await stock.recognise(cut)
        assert words(heard.text) == words(expected.text)
        assert heard.avg_logprob == pytest.approx(expected.avg_logprob, abs=0.1)


async def test_known_words_and_a_prompt_are_taken_as_ctranslate2_takes_them(
    recogniser: WhisperRecogniser, stock: WhisperRecogniser, recordings: dict[str, Samples]
) -> None:
    known = {"prompt": "A tale of two cities.", "prefix": "It was the best"}
    cut = recordings["two_cities"][: int(4.7 * RATE_HZ)]
    heard, expected = await recogniser.recognise(cut, **known), await stock.recognise(cut, **known)
    assert words(heard.text) == words(expected.text)
    assert heard.avg_logprob == pytest.approx(expected.avg_logprob, abs=0.1)


@pytest.mark.parametrize(
    "guess",
    [
        "It was the best of times, it was the worst of times.",
        "It was the best of times, it was",
        "It was the rest of times, it was the worst of times.",
        "Something else altogether",
        "word " * 100,
    ],
)
@pytest.mark.parametrize("prefix", ["", "It was the"])
async def test_a_guess_right_or_wrong_changes_nothing(
    recogniser: WhisperRecogniser, recordings: dict[str, Samples], guess: str, prefix: str
) -> None:
    cut = recordings["two_cities"][: int(4.7 * RATE_HZ)]
    heard: list[Hypothesis] = [await recogniser.recognise(cut, prefix=prefix, guess=one) for one in ("", guess)]
    assert heard[0] == heard[1]


async def test_doubtful_words_get_a_second_look_as_final_ones(
    recogniser: WhisperRecogniser, recordings: dict[str, Samples]
) -> None:
    doubtful = recordings["beckett"][: 3 * RATE_HZ]
    first, second = [await recogniser.recognise(doubtful, final=final) for final in (False, True)]
    assert (first.sure, second.sure) == (False, True)
    assert words(second.text) == ["ever", "tried", "ever", "failed"]


def test_the_next_start_decodes_with_the_same_weights(store: Store, tmp_path: Path) -> None:
    folder, prepared = store.path("whisper-base"), Prepared(tmp_path)
    made, kept = decoding(folder, prepared), decoding(folder, prepared)
    assert prepared.find(folder, DECODER_FORM) is not None
    for one, other in zip(made.weights.qkv.weight, kept.weights.qkv.weight, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(made.weights.head.values, kept.weights.head.values)
    assert np.array_equal(made.cross_weight, kept.cross_weight)
    assert made.weights.heads == kept.weights.heads
