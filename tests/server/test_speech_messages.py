"""Speech in pieces: nothing lost, nothing shifted, every message aligned on its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.format import AudioFormat
from audio.resample import resample
from pipeline.ports import Speech
from server.speech_messages import audio_message, cut_speech, error_message, final_message

RATE_HZ = 24_000


def speech(durations_ms: list[int]) -> Speech:
    """A tone with one character for every duration."""
    samples = np.sin(np.arange(sum(durations_ms) * RATE_HZ // 1000, dtype=np.float32) * 0.1) * np.float32(0.5)
    starts = np.cumsum([0, *durations_ms[:-1]]).tolist() if durations_ms else []
    return Speech(samples, RATE_HZ, "x" * len(durations_ms), tuple(starts), tuple(durations_ms))


DURATIONS = st.lists(st.integers(0, 130), min_size=1, max_size=40)


@given(durations=DURATIONS, rate_hz=st.sampled_from([8_000, 16_000, 22_050, 24_000, 44_100, 48_000]))
def test_the_pieces_joined_are_the_speech(durations: list[int], rate_hz: int) -> None:
    audio = AudioFormat("pcm16", rate_hz)
    whole = speech(durations)
    joined = b"".join(piece.sound for piece in cut_speech(whole, audio))
    assert joined == audio.encode(resample(whole.samples, RATE_HZ, rate_hz))


@given(durations=DURATIONS)
def test_the_characters_of_a_piece_last_as_long_as_its_sound(durations: list[int]) -> None:
    audio = AudioFormat("pcm16", RATE_HZ)
    for piece in cut_speech(speech(durations), audio):
        assert piece.starts_ms[0] == 0
        assert piece.starts_ms[-1] + piece.durations_ms[-1] == audio.duration_ms(piece.sound)


@given(durations=DURATIONS)
def test_every_character_is_in_one_piece(durations: list[int]) -> None:
    whole = speech(durations)
    pieces = list(cut_speech(whole, AudioFormat("pcm16", RATE_HZ)))
    assert "".join(piece.characters for piece in pieces) == (whole.text if len(whole.samples) else "")


def test_pieces_begin_short_and_grow() -> None:
    audio = AudioFormat("pcm16", RATE_HZ)
    lengths = [audio.duration_ms(piece.sound) for piece in cut_speech(speech([10] * 100), audio)]
    assert lengths[:5] == [40, 60, 80, 100, 100]


def test_silence_makes_no_piece() -> None:
    assert list(cut_speech(speech([0, 0, 0]), AudioFormat("pcm16", RATE_HZ))) == []


def test_telephone_formats_are_bytes_a_sample() -> None:
    (piece,) = cut_speech(speech([40]), AudioFormat("pcmu", 8_000))
    assert len(piece.sound) == 320


@pytest.mark.parametrize("context", ["c1", None])
def test_a_message_names_its_context_in_both_spellings_or_has_none(context: str | None) -> None:
    (piece,) = cut_speech(speech([40]), AudioFormat("pcm16", RATE_HZ))
    for message in (audio_message(piece, context), final_message(context), error_message("m", "e", context)):
        assert json.loads(message).get("contextId") == context
        assert json.loads(message).get("context_id") == context


def test_an_audio_message_carries_its_alignment_twice() -> None:
    (piece,) = cut_speech(speech([10, 30]), AudioFormat("pcm16", RATE_HZ))
    message = json.loads(audio_message(piece, None))
    assert message["alignment"] == {"chars": ["x", "x"], "charStartTimesMs": [0, 10], "charDurationsMs": [10, 30]}
    assert message["normalizedAlignment"] == message["alignment"]
    assert message["isFinal"] is None
