"""The text-to-speech protocol without a socket: messages in, actions out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.speech_protocol import (
    MAX_CONTEXTS,
    Action,
    Drop,
    Finish,
    HangUp,
    ProtocolError,
    Speak,
    SpeechProtocol,
    SpeechRequest,
    matches,
)

MULTI = "/v1/text-to-speech/heart/multi-stream-input"
SINGLE = "/v1/text-to-speech/heart/stream-input"


class Dialogue:
    """A protocol under test with a clock of its own."""

    def __init__(self, target: str) -> None:
        self.now = 0.0
        self.protocol = SpeechProtocol(SpeechRequest.parse(target), self.now)

    def send(self, **message: Any) -> list[Action]:
        return self.protocol.receive(json.dumps(message), self.now)


@pytest.fixture
def multi() -> Dialogue:
    return Dialogue(MULTI)


@pytest.fixture
def single() -> Dialogue:
    return Dialogue(SINGLE)


# --- the handshake ---


@pytest.mark.parametrize("target", [SINGLE, MULTI, f"{MULTI}?output_format=mp3_44100_128"])
def test_both_sockets_are_recognised_by_their_path(target: str) -> None:
    assert matches(target)


@pytest.mark.parametrize("target", ["/", "/v1/realtime", "/v1/text-to-speech/heart", f"{SINGLE}/more"])
def test_other_paths_are_not(target: str) -> None:
    assert not matches(target)


def test_the_query_says_how_to_speak() -> None:
    request = SpeechRequest.parse(
        f"{MULTI.replace('heart', 'a%20b')}?output_format=pcm_16000&auto_mode=true&inactivity_timeout=180"
    )
    assert (request.voice_id, request.multi, request.auto_mode) == ("a b", True, True)
    assert (request.audio.encoding, request.audio.rate_hz) == ("pcm16", 16_000)
    assert request.inactivity_timeout_s == 180


def test_what_clients_send_besides_is_accepted() -> None:
    SpeechRequest.parse(f"{MULTI}?model_id=x&language_code=en&enable_logging=false&sync_alignment=true&seed=1")


def test_a_compressed_format_is_refused_with_the_ones_that_are_served() -> None:
    with pytest.raises(ProtocolError, match=r"mp3_44100_128.*pcm_24000"):
        SpeechRequest.parse(f"{SINGLE}?output_format=mp3_44100_128")


@pytest.mark.parametrize("setting", ["auto_mode=maybe", "inactivity_timeout=soon", "inactivity_timeout=nan"])
def test_a_setting_that_makes_no_sense_is_refused(setting: str) -> None:
    with pytest.raises(ProtocolError, match=setting.partition("=")[0]):
        SpeechRequest.parse(f"{SINGLE}?{setting}")


# --- one context a socket ---


def test_the_opening_space_says_nothing(single: Dialogue) -> None:
    assert single.send(text=" ", voice_settings=None, try_trigger_generation=True) == []


def test_tokens_are_joined_and_cut_into_phrases(single: Dialogue) -> None:
    assert single.send(text="Hel") == []
    assert single.send(text="lo. ") == []
    assert single.send(text="Then ") == [Speak("default", "Hello. ", 1.0)]


def test_empty_text_ends_the_input_and_then_the_connection(single: Dialogue) -> None:
    single.send(text="Bye")
    assert single.send(text="") == [Speak("default", "Bye ", 1.0), Finish("default"), HangUp()]


def test_after_the_end_of_input_nothing_is_taken(single: Dialogue) -> None:
    single.send(text="")
    assert single.send(text="more. More. ") == []


def test_flush_speaks_what_was_sent_as_one_phrase(single: Dialogue) -> None:
    assert single.send(text="Yes. It is, I think. ", flush=True) == [
        Speak("default", "Yes. It is, I think. ", 1.0)
    ]


def test_a_flush_that_is_longer_than_a_chunk_may_be_is_cut(single: Dialogue) -> None:
    texts = [action.text for action in single.send(text="Here is a sentence. " * 20, flush=True)]  # type: ignore[union-attr]
    assert "".join(texts) == "Here is a sentence. " * 20
    assert len(texts[0]) <= 120


def test_the_chunk_schedule_is_an_upper_bound(single: Dialogue) -> None:
    single.send(text=" ", generation_config={"chunk_length_schedule": [50]})
    actions = single.send(text="the a of " * 30)
    assert actions
    assert all(isinstance(action, Speak) and len(action.text) <= 50 for action in actions)


def test_a_trigger_speaks_only_what_is_worth_it(single: Dialogue) -> None:
    words = "the a of and to the a of and to the a of and to the"
    assert single.send(text="the a of ", try_trigger_generation=True) == []
    assert single.send(text=words, try_trigger_generation=True) == [Speak("default", f"the a of {words} ", 1.0)]


def test_auto_mode_speaks_every_text_at_once() -> None:
    dialogue = Dialogue(f"{SINGLE}?auto_mode=true")
    assert dialogue.send(text=" ") == []
    assert dialogue.send(text="The ") == [Speak("default", "The ", 1.0)]


def test_the_speed_of_the_first_message_holds(single: Dialogue) -> None:
    single.send(text=" ", voice_settings={"speed": 1.2, "stability": 0.5, "use_speaker_boost": True})
    assert single.send(text="Hi", flush=True) == [Speak("default", "Hi ", 1.2)]


def test_a_silent_client_is_told_why_it_is_left(single: Dialogue) -> None:
    single.send(text="Hi")
    assert single.protocol.deadline == 20.0
    *spoken, hang_up = single.protocol.expire(20.0)
    assert spoken == [Speak("default", "Hi ", 1.0), Finish("default")]
    assert isinstance(hang_up, HangUp)
    assert hang_up.error is not None
    assert hang_up.error.error == "input_timeout_exceeded"


# --- several contexts a socket ---


def test_contexts_are_spoken_apart(multi: Dialogue) -> None:
    multi.send(text="One ", context_id="a")
    multi.send(text="Two ", context_id="b")
    assert multi.send(context_id="a", flush=True) == [Speak("a", "One ", 1.0)]
    assert multi.send(text="", context_id="b", flush=True) == [Speak("b", "Two ", 1.0)]


def test_both_spellings_of_the_context_are_read(multi: Dialogue) -> None:
    multi.send(text="One ", contextId="a")
    assert multi.send(context_id="a", flush=True) == [Speak("a", "One ", 1.0)]


def test_without_a_context_it_is_the_default_one(multi: Dialogue) -> None:
    assert multi.send(text="Hi", flush=True) == [Speak("default", "Hi ", 1.0)]


@pytest.mark.parametrize("message", [{"text": ""}, {"text": "", "context_id": "a"}, {"context_id": "a"}])
def test_a_keep_alive_opens_no_context(multi: Dialogue, message: dict[str, str]) -> None:
    assert multi.send(**message) == []
    assert multi.protocol.deadline is None


def test_a_keep_alive_keeps_a_context(multi: Dialogue) -> None:
    multi.send(text="Hi ", context_id="a")
    multi.now = 15.0
    assert multi.send(text="", context_id="a") == []
    assert multi.protocol.deadline == 35.0


def test_a_context_left_alone_is_finished_and_the_others_stay(multi: Dialogue) -> None:
    multi.send(text="Hi ", context_id="a")
    multi.now = 15.0
    multi.send(text="Ho ", context_id="b")
    assert multi.protocol.expire(20.0) == [Speak("a", "Hi ", 1.0), Finish("a")]
    assert multi.protocol.deadline == 35.0


@pytest.mark.parametrize("ending", [{"flush": True}, {"close_context": True}])
def test_a_last_word_is_told_as_over_although_no_space_came(multi: Dialogue, ending: dict[str, bool]) -> None:
    multi.send(text="It is", context_id="a")
    assert multi.send(context_id="a", **ending)[0] == Speak("a", "It is ", 1.0)


def test_a_closed_context_says_the_rest(multi: Dialogue) -> None:
    multi.send(text="One", context_id="a")
    assert multi.send(context_id="a", close_context=True) == [Speak("a", "One ", 1.0), Finish("a")]
    assert multi.send(context_id="a", close_context=True) == []


def test_text_may_come_with_the_close(multi: Dialogue) -> None:
    assert multi.send(text="Bye", context_id="a", close_context=True) == [Speak("a", "Bye ", 1.0), Finish("a")]


def test_an_immediate_close_drops_what_is_buffered_or_being_spoken(multi: Dialogue) -> None:
    multi.send(text="One. Two", context_id="a")
    assert multi.send(context_id="a", close_context=True, immediate=True) == [Drop("a")]


def test_an_immediate_close_reaches_a_context_that_was_closed_before(multi: Dialogue) -> None:
    multi.send(text="One", context_id="a", close_context=True)
    assert multi.send(context_id="a", close_context=True, immediate=True) == [Drop("a")]


def test_an_immediate_close_of_a_context_that_never_spoke_only_ends_it(multi: Dialogue) -> None:
    multi.send(text="One", context_id="a")
    assert multi.send(context_id="a", close_context=True, immediate=True) == [Finish("a")]


def test_a_closed_id_may_be_used_again(multi: Dialogue) -> None:
    multi.send(text="One", context_id="a", close_context=True)
    assert multi.send(text="Two", context_id="a", flush=True) == [Speak("a", "Two ", 1.0)]


def test_one_context_too_many_is_an_error(multi: Dialogue) -> None:
    for number in range(MAX_CONTEXTS):
        multi.send(text=" ", context_id=str(number))
    with pytest.raises(ProtocolError) as caught:
        multi.send(text=" ", context_id="one more")
    assert caught.value.error == "max_active_conversations"


def test_closing_the_socket_finishes_every_context(multi: Dialogue) -> None:
    multi.send(text="One", context_id="a")
    multi.send(text=" ", context_id="b")
    assert multi.send(close_socket=True) == [Speak("a", "One ", 1.0), Finish("a"), Finish("b"), HangUp()]


# --- what is no message ---


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ("not json", "JSON"),
        ("[]", "object"),
        (b"\0\1", "binary"),
        ('{"text": 5}', "text"),
        ('{"text": "x", "voice_settings": {"speed": 9}}', "speed"),
        ('{"text": "x", "generation_config": {"chunk_length_schedule": [1]}}', "chunk_length_schedule"),
        (json.dumps({"text": "x" * 20_001}), "20000"),
    ],
)
def test_a_broken_message_is_named(multi: Dialogue, raw: str | bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint) as caught:
        multi.protocol.receive(raw, 0.0)
    assert caught.value.error == "invalid_message"
