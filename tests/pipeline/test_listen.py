"""Listening: probabilities in, starts, pauses and resumptions out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import ListenConfig
from pipeline.frames import SpeechPaused, SpeechResumed, SpeechStarted, VoiceEvent
from pipeline.listen import Listener
from pipeline.ports import VAD_FRAME_SAMPLES

SPEECH, SILENCE = 0.9, 0.05


@pytest.fixture
def listener() -> Listener:
    return Listener(ListenConfig(start_ms=64, pause_ms=96))


def hear(listener: Listener, *probabilities: float) -> list[VoiceEvent]:
    return [event for probability in probabilities for event in listener.push(probability)]


def test_speech_starts_at_the_first_of_the_frames_that_showed_it(listener: Listener) -> None:
    assert hear(listener, SILENCE, SPEECH) == []
    assert hear(listener, SPEECH) == [SpeechStarted(1 * VAD_FRAME_SAMPLES)]


def test_one_loud_frame_is_no_speech(listener: Listener) -> None:
    assert hear(listener, *[SPEECH, SILENCE] * 20) == []


def test_a_pause_is_dated_back_to_the_last_speech_sample(listener: Listener) -> None:
    hear(listener, SPEECH, SPEECH, SPEECH)
    assert hear(listener, SILENCE, SILENCE) == []
    assert hear(listener, SILENCE) == [SpeechPaused(3 * VAD_FRAME_SAMPLES)]


def test_speech_after_a_pause_is_a_resumption(listener: Listener) -> None:
    hear(listener, SPEECH, SPEECH, *[SILENCE] * 10)
    assert hear(listener, SPEECH, SPEECH) == [SpeechResumed(12 * VAD_FRAME_SAMPLES)]


def test_speech_after_the_turn_is_a_start(listener: Listener) -> None:
    hear(listener, SPEECH, SPEECH, *[SILENCE] * 3)
    listener.rearm()
    assert hear(listener, SPEECH, SPEECH) == [SpeechStarted(5 * VAD_FRAME_SAMPLES)]


def test_probabilities_between_the_thresholds_hold_speech_open_but_do_not_open_it(listener: Listener) -> None:
    assert hear(listener, *[0.4] * 10) == []
    hear(listener, SPEECH, SPEECH)
    assert hear(listener, *[0.4] * 10) == []


def test_a_short_dip_within_speech_is_no_pause(listener: Listener) -> None:
    hear(listener, SPEECH, SPEECH)
    assert hear(listener, *[SILENCE, SILENCE, SPEECH] * 10) == []


def test_silence_is_counted_in_sound_since_the_last_speech_sample(listener: Listener) -> None:
    hear(listener, SPEECH, SPEECH, *[SILENCE] * 5)
    assert listener.silence_ms == 160


def test_the_first_silent_frame_is_unvoiced_although_speech_goes_on(listener: Listener) -> None:
    hear(listener, SPEECH, SPEECH)
    assert listener.voiced
    hear(listener, SILENCE)
    assert listener.speaking
    assert not listener.voiced


def test_an_onset_is_pending_until_there_are_frames_enough(listener: Listener) -> None:
    hear(listener, SPEECH)
    assert listener.onset_pending
    hear(listener, SPEECH)
    assert not listener.onset_pending


def test_starved_of_sound_speech_pauses_and_may_resume(listener: Listener) -> None:
    hear(listener, SPEECH, SPEECH)
    assert listener.starve() == [SpeechPaused(2 * VAD_FRAME_SAMPLES)]
    assert listener.starve() == []
    assert hear(listener, SPEECH, SPEECH) == [SpeechResumed(2 * VAD_FRAME_SAMPLES)]


@given(st.lists(st.floats(0, 1)))
def test_starts_and_pauses_alternate_and_never_lie_in_the_future(probabilities: list[float]) -> None:
    listener = Listener(ListenConfig())
    open_since = None
    for probability in probabilities:
        for event in listener.push(probability):
            match event:
                case SpeechPaused(end):
                    assert open_since is not None
                    assert open_since < end <= listener.position
                    open_since = None
                case SpeechStarted(start) | SpeechResumed(start):
                    assert open_since is None
                    assert 0 <= start < listener.position
                    open_since = start


def test_a_voice_is_clear_once_it_was_beyond_doubt(listener: Listener) -> None:
    hear(listener, 0.7, 0.7)
    assert not listener.clear
    hear(listener, 0.95, 0.6)
    assert listener.clear


def test_the_next_speech_has_to_become_clear_by_itself(listener: Listener) -> None:
    hear(listener, 0.95, 0.95, *[SILENCE] * 3, 0.7, 0.7)
    assert not listener.clear
