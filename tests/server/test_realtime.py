"""The Realtime protocol's state, without a socket: what clients send, what they are told."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from pipeline.events import (
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    TurnClosed,
    TurnFailed,
    TurnReopened,
    UserStarted,
    UserStopped,
    UserTranscript,
    UserWords,
)
from pipeline.ports import Message
from pipeline.timing import TurnRecord
from server.realtime import RealtimeProtocol
from server.wishes import CancelReply, HearSound, WantReply
from tests.pipeline.remembering import found


class Client:
    """Talks to the protocol and reads what it says."""

    def __init__(self, **options: Any) -> None:
        self.protocol = RealtimeProtocol(model="small", instructions="Be brief.", voice="heart", **options)
        self.wishes: list[Any] = []

    def send(self, kind: str, **body: Any) -> list[dict[str, Any]]:
        return self.raw(json.dumps({"type": kind, **body}))

    def raw(self, message: str | bytes) -> list[dict[str, Any]]:
        self.told()
        self.wishes += self.protocol.receive(message)
        return self.told()

    def asks_for_reply(self, **response: Any) -> str:
        """Asks for a reply; returns the key under which the session begins it."""
        self.send("response.create", response=response)
        return next(wish.request.key for wish in reversed(self.wishes) if isinstance(wish, WantReply))

    def happens(self, *events: Any) -> list[dict[str, Any]]:
        self.told()
        for event in events:
            self.protocol.on_event(event)
        return self.told()

    def told(self) -> list[dict[str, Any]]:
        said, self.protocol.outgoing = self.protocol.outgoing, []
        return [json.loads(text) for text in said]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


TURN = (UserStarted(1, 100.0), UserStopped(1, 1500.0), UserTranscript(1, "Hello", 1.4))
REPLY = (ReplyStarted(1), ReplyText(1, "Hi "), ReplyAudio(1, b"\0\0" * 480, 24_000))


def ended(status: Any = "completed", heard: str = "Hi ", error: str = "") -> ReplyEnded:
    return ReplyEnded(1, status, "Hi ", heard, 1, error)


def test_the_session_is_told_whole_and_unasked() -> None:
    created = Client().told()[0]
    assert created["type"] == "session.created"
    assert created["session"]["audio"]["input"]["turn_detection"]["interrupt_response"] is True


def test_an_update_changes_only_what_it_names() -> None:
    client = Client()
    told = client.send("session.update", session={"audio": {"input": {"transcription": {"model": "x"}}}})[0]
    assert told["session"]["audio"]["input"]["transcription"] == {"model": "x"}
    assert told["session"]["audio"]["output"]["voice"] == "heart"


def test_an_unknown_setting_is_ignored() -> None:
    assert kinds(Client().send("session.update", session={"surprise": 1})) == ["session.updated"]


def test_sound_may_be_cut_anywhere_even_within_a_sample() -> None:
    client = Client()
    pcm = (bytes(range(251)) * 8, b"\1\2\3" * 401, bytes(1000))
    for piece in pcm:
        client.send("input_audio_buffer.append", audio=base64.b64encode(piece).decode())
    whole = Client()
    whole.send("input_audio_buffer.append", audio=base64.b64encode(b"".join(pcm)).decode())
    whole_sound, sound = (
        [*np.concatenate([wish.samples for wish in one.wishes if isinstance(wish, HearSound)])]
        for one in (whole, client)
    )
    assert sound == whole_sound


def test_a_turn_comes_in_the_order_clients_rely_on() -> None:
    client = Client()
    client.send("session.update", session={"audio": {"input": {"transcription": {"model": "x"}}}})
    assert kinds(client.happens(*TURN, *REPLY, ended())) == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]


def test_transcription_is_told_only_to_those_who_asked() -> None:
    assert not [kind for kind in kinds(Client().happens(*TURN)) if "transcription" in kind]


def test_every_event_has_an_id_of_its_own() -> None:
    events = Client().happens(*TURN, *REPLY, ended())
    assert len({event["event_id"] for event in events}) == len(events)


def test_the_users_item_keeps_the_id_it_had_when_speech_began() -> None:
    events = Client().happens(*TURN)
    started, added = events[0], next(e for e in events if e["type"] == "conversation.item.added")
    assert started["item_id"] == added["item"]["id"]
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]


def test_a_barge_in_is_told_before_the_reply_is_closed_and_no_audio_follows() -> None:
    client = Client()
    client.happens(*TURN, *REPLY)
    events = client.happens(UserStarted(2, 3000.0), ReplyAudio(1, b"\0\0", 24_000), ended("cancelled"))
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    assert "response.output_audio.delta" not in kinds(events)
    assert events[-1]["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}


def test_nothing_of_a_reply_follows_its_end() -> None:
    client = Client()
    client.happens(*TURN, *REPLY, ended())
    assert not client.happens(ReplyAudio(1, b"\0\0", 24_000), ReplyText(1, "late"))


def test_a_cut_replys_item_holds_what_was_heard() -> None:
    client = Client()
    events = client.happens(*TURN, *REPLY, UserStarted(2, 1.0), ended("cancelled", heard="Hi"))
    item = next(event["item"] for event in events if event["type"] == "response.output_item.done")
    assert (item["status"], item["content"][0]["transcript"]) == ("incomplete", "Hi")


def test_a_failed_reply_says_why() -> None:
    events = Client().happens(*TURN, *REPLY, ended("failed", error="speech: gone"))
    assert events[-1]["response"]["status_details"]["error"]["message"] == "speech: gone"


def test_a_turn_that_failed_is_an_error_the_session_survives() -> None:
    client = Client()
    assert kinds(client.happens(UserStarted(1, 0.0), UserStopped(1, 1.0), TurnFailed(1, "no ears")))[-1] == "error"
    assert kinds(client.send("session.update", session={})) == ["session.updated"]


def test_a_reopened_turn_goes_on_as_a_new_item() -> None:
    client = Client()
    first = client.happens(*TURN)[0]["item_id"]
    deleted, started = client.happens(TurnReopened(1))
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", first)
    assert started["item_id"] != first


def test_typed_words_and_a_wanted_reply_reach_the_session() -> None:
    client = Client()
    content = [{"type": "input_text", "text": "Hello"}]
    told = client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    client.send("response.create", response={"output_modalities": ["text"]})
    assert kinds(told) == ["conversation.item.added", "conversation.item.done"]
    remember, want = client.wishes
    assert (remember.message, remember.after) == (Message("user", "Hello"), None)
    assert (want.request.spoken, want.request.in_conversation) == (False, True)


def test_metadata_comes_back_word_for_word() -> None:
    client = Client()
    events = client.happens(ReplyStarted(1, client.asks_for_reply(metadata={"key": "value"})), ended())
    assert [e["response"]["metadata"] for e in events if "response" in e] == [{"key": "value"}] * 2


def test_cancelling_wants_a_running_reply() -> None:
    client = Client()
    assert client.send("response.cancel", event_id="mine")[0]["error"]["code"] == "response_cancel_not_active"
    client.happens(*TURN, *REPLY)
    client.send("response.cancel")
    assert [wish.turn for wish in client.wishes if isinstance(wish, CancelReply)] == [1]


def test_a_second_reply_at_once_is_refused() -> None:
    client = Client()
    client.happens(*TURN, *REPLY)
    code = client.send("response.create")[0]["error"]["code"]
    assert code == "conversation_already_has_active_response"


def test_items_are_found_again_and_unknown_ones_are_an_error() -> None:
    client = Client()
    item = client.send(
        "conversation.item.create", item={"id": "mine", "type": "message", "role": "user", "content": []}
    )
    assert item[0]["item"]["id"] == "mine"
    assert client.send("conversation.item.retrieve", item_id="mine")[0]["item"]["id"] == "mine"
    missing = client.send("conversation.item.retrieve", item_id="nobody")[0]
    assert missing["error"]["code"] == "item_retrieve_invalid_item_id"


def test_a_truncation_is_confirmed_and_never_refused_for_its_length() -> None:
    client = Client()
    added = next(e for e in client.happens(*TURN, *REPLY) if e["type"] == "response.output_item.added")
    told = client.send(
        "conversation.item.truncate", item_id=added["item"]["id"], content_index=0, audio_end_ms=10**9
    )
    assert kinds(told) == ["conversation.item.truncated"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_event"),
        (b"\0", "invalid_event"),
        ('{"type": "nope"}', "invalid_value"),
        ('{"type": "session.update"}', "invalid_type"),
        ('{"type": "input_audio_buffer.append", "audio": "%%%"}', "invalid_value"),
        ('{"type": "input_audio_buffer.append"}', "invalid_type"),
    ],
)
def test_what_is_wrong_with_a_message_is_told_and_the_session_goes_on(message: str | bytes, code: str) -> None:
    assert Client().raw(message)[0]["error"]["code"] == code


def test_an_error_names_the_event_that_caused_it() -> None:
    assert Client().send("nope", event_id="mine")[0]["error"]["event_id"] == "mine"


def test_extras_are_only_for_those_who_asked() -> None:
    record = TurnClosed(TurnRecord(1))
    assert not Client().happens(record, UserStarted(1, 0.0))[1:]
    assert kinds(Client(extras=True).happens(record)) == ["echoic.turn"]


def test_words_come_early_to_those_who_asked_and_are_not_said_twice() -> None:
    client = Client(extras=True)
    client.send("session.update", session={"audio": {"input": {"transcription": {"model": "x"}}}})
    events = client.happens(UserStarted(1, 0.0), UserWords(1, "Hel"), *TURN[1:])
    assert "".join(event["delta"] for event in events if event["type"].endswith(".delta")) == "Hello"


def test_in_private_mode_the_items_of_a_turn_that_is_over_hold_no_words() -> None:
    client = Client(private=True)
    client.happens(*TURN, TurnClosed(TurnRecord(1, transcript="Hello")))
    assert not found(client.protocol._items, "Hello")


def test_otherwise_the_items_keep_their_words() -> None:
    client = Client()
    client.happens(*TURN, TurnClosed(TurnRecord(1)))
    assert found(client.protocol._items, "Hello")
