"""The Realtime protocol's state, without a socket: what clients send, what they are told."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clients.traces import found
from pipeline.events import (
    NobodySpoke,
    ReplyAudio,
    ReplyCalled,
    ReplyEnded,
    ReplyRefused,
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
from pipeline.ports import Message, PromptRead, ToolCall
from pipeline.requests import TurnDetection
from pipeline.timing import TurnRecord
from server.realtime import RealtimeProtocol
from server.wishes import (
    CancelReply,
    Configure,
    DropSound,
    Forget,
    HearSound,
    Remember,
    TakeSound,
    Truncate,
    WantReply,
)


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


def test_the_voice_that_is_told_is_the_one_that_speaks() -> None:
    client = Client()
    wanted = {"audio": {"output": {"voice": {"id": "marin"}}}}
    told = client.send("session.update", session=wanted)[0]
    client.send("response.create", response=wanted)
    created = client.happens(ReplyStarted(1, client.wishes[-1].request.key))[0]
    assert told["session"]["audio"]["output"]["voice"] == "heart"
    assert created["response"]["audio"]["output"]["voice"] == "heart"


@pytest.mark.parametrize(("wanted", "speed"), [(1.1, 1.1), (0.25, 0.7), (1.5, 1.2), ("fast", 1.0), (None, 1.0)])
def test_the_speed_that_is_told_is_the_one_that_replies_are_spoken_with(wanted: Any, speed: float) -> None:
    client = Client()
    told = client.send("session.update", session={"audio": {"output": {"speed": wanted}}})[0]
    client.send("response.create")
    assert told["session"]["audio"]["output"]["speed"] == speed
    assert client.wishes[-1].request.speed == speed


def spoken_item(**more: Any) -> dict[str, Any]:
    sound = {"type": "input_audio", "audio": base64.b64encode(bytes(48_000)).decode(), **more}
    return {
        "id": "mine",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Listen:"}, sound],
    }


def test_the_sound_of_an_item_becomes_its_words_in_the_conversation() -> None:
    client = Client()
    client.send("session.update", session={"audio": {"input": {"transcription": {"model": "x"}}}})
    assert kinds(client.send("conversation.item.create", item=spoken_item())) == [
        "conversation.item.added",
        "conversation.item.done",
    ]
    wish = client.wishes[-1]
    assert len(wish.recordings[1]) == 16_000
    assert client.protocol.understood(wish, {1: "Hello"}) == [
        Remember("item:mine", Message("user", "Listen: Hello"), ())
    ]
    done = client.told()[0]
    assert (done["transcript"], done["content_index"], done["usage"]["seconds"]) == ("Hello", 1, 1.0)
    retrieved = client.send("conversation.item.retrieve", item_id="mine")[0]
    assert retrieved["item"]["content"][1] == {"type": "input_audio", "transcript": "Hello"}


def test_an_item_that_brings_its_words_is_not_listened_to() -> None:
    client = Client()
    client.send("conversation.item.create", item=spoken_item(transcript="Hi"))
    assert client.wishes == [Remember("item:mine", Message("user", "Listen: Hi"))]


def test_sound_of_an_item_that_is_not_understood_is_told_once() -> None:
    client = Client()
    client.send("conversation.item.create", item=spoken_item())
    client.protocol.not_understood(client.wishes[-1], "broken")
    assert kinds(client.told()) == ["error"]
    client.send("session.update", session={"audio": {"input": {"transcription": {"model": "x"}}}})
    client.protocol.not_understood(client.wishes[0], "broken")
    assert kinds(client.told()) == ["conversation.item.input_audio_transcription.failed"]


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


def user_item(**fields: Any) -> dict[str, Any]:
    content = [{"type": "input_text", "text": "Hello"}]
    return {"type": "message", "role": "user", "content": content, **fields}


def push_to_talk(client: Client) -> None:
    client.send("session.update", session={"audio": {"input": {"turn_detection": None}}})


def test_committed_sound_becomes_an_item_without_a_word_of_voice_activity() -> None:
    client = Client()
    push_to_talk(client)
    client.send("input_audio_buffer.append", audio=base64.b64encode(bytes(9_600)).decode())
    client.send("input_audio_buffer.commit")
    assert [type(wish) for wish in client.wishes[-2:]] == [HearSound, TakeSound]
    assert kinds(client.happens(UserStopped(1, None), UserTranscript(1, "Hello", 0.2))) == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]


def test_too_little_sound_to_commit_is_an_error() -> None:
    client = Client()
    client.send("input_audio_buffer.append", audio=base64.b64encode(bytes(2_400)).decode())
    told = client.send("input_audio_buffer.commit", event_id="mine")[0]["error"]
    assert (told["code"], told["event_id"]) == ("input_audio_buffer_commit_empty", "mine")


def test_cleared_sound_is_dropped() -> None:
    client = Client()
    assert kinds(client.send("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    assert client.wishes == [DropSound()]


def configured(**detection: Any) -> TurnDetection:
    client = Client()
    client.send("session.update", session={"audio": {"input": {"turn_detection": detection}}})
    wish: Configure = client.wishes[-1]
    return wish.detection


@pytest.mark.parametrize(
    ("wanted", "detection"),
    [
        ({"type": "server_vad"}, TurnDetection()),
        ({"type": "server_vad", "silence_duration_ms": 500}, TurnDetection()),
        ({"type": "server_vad", "silence_duration_ms": 700}, TurnDetection(silence_ms=700)),
        ({"type": "server_vad", "silence_duration_ms": 1}, TurnDetection(silence_ms=100)),
        ({"type": "server_vad", "create_response": False}, TurnDetection(replies=False)),
        ({"type": "server_vad", "idle_timeout_ms": 6000}, TurnDetection(idle_timeout_ms=6000)),
        ({"type": "server_vad", "threshold": "0.7"}, TurnDetection(threshold=0.7)),
        ({"type": "semantic_vad", "eagerness": "low"}, TurnDetection(eagerness="low")),
        ({"type": "semantic_vad", "interrupt_response": False}, TurnDetection(interrupts=False)),
        ({"type": "telepathy"}, TurnDetection()),
    ],
)
def test_turn_detection_is_what_the_client_wants_of_it(wanted: dict[str, Any], detection: TurnDetection) -> None:
    assert configured(**wanted) == detection


def test_an_update_that_cannot_be_changes_nothing() -> None:
    client = Client()
    told = client.send("session.update", session={"instructions": "New.", "tools": [{"type": "function"}]})
    assert kinds(told) == ["error"]
    assert client.send("session.update", session={})[0]["session"]["instructions"] == "Be brief."


def test_a_session_that_only_transcribes_has_no_output_and_makes_no_response() -> None:
    client = Client()
    told = client.send("session.update", session={"type": "transcription"})[0]["session"]
    assert (told["object"], list(told["audio"])) == ("realtime.transcription_session", ["input"])
    assert kinds(client.send("response.create")) == ["error"]
    assert not client.wishes[0].detection.replies


def test_an_item_may_be_put_anywhere() -> None:
    client = Client()
    for item_id, after in (("b", None), ("c", None), ("a", "root"), ("between", "b")):
        client.send("conversation.item.create", item=user_item(id=item_id), previous_item_id=after)
    places = {wish.key: wish.after for wish in client.wishes}
    assert places["item:a"] == ()
    assert places["item:between"] == ("item:a", "item:b")


def test_an_id_that_is_taken_and_a_place_that_is_not_there_are_errors() -> None:
    client = Client()
    client.send("conversation.item.create", item=user_item(id="a"))
    again = client.send("conversation.item.create", item=user_item(id="a"))
    nowhere = client.send("conversation.item.create", item=user_item(), previous_item_id="nobody")
    assert [told[0]["error"]["param"] for told in (again, nowhere)] == ["item.id", "previous_item_id"]


def test_a_deleted_item_is_forgotten() -> None:
    client = Client()
    client.send("conversation.item.create", item=user_item(id="a"))
    assert kinds(client.send("conversation.item.delete", item_id="a")) == ["conversation.item.deleted"]
    assert client.wishes[-1] == Forget("item:a")


def message_id(events: list[dict[str, Any]]) -> str:
    return next(e["item"]["id"] for e in events if e["type"] == "response.output_item.added")


def test_a_truncated_reply_says_what_was_heard() -> None:
    client = Client()
    item_id = message_id(client.happens(*TURN, *REPLY, ended()))
    client.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=300)
    assert client.wishes[-1] == Truncate(item_id, 1, 300)
    client.protocol.truncated(item_id, "H")
    told = client.send("conversation.item.retrieve", item_id=item_id)[0]
    assert told["item"]["content"] == [{"type": "output_audio", "transcript": "H"}]


def test_a_call_is_told_before_its_arguments_and_whole_at_its_end() -> None:
    client = Client()
    call = ToolCall("call_1", "weather", '{"city": "Rome"}')
    events = client.happens(ReplyStarted(1), ReplyCalled(1, call), ReplyEnded(1, "completed", "", "", 9))
    assert kinds(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    assert events[-1]["response"]["output"][0]["arguments"] == '{"city": "Rome"}'


def test_the_output_of_a_call_reaches_the_model() -> None:
    client = Client()
    client.send(
        "conversation.item.create", item={"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
    )
    assert client.wishes[0].message == Message("tool", "sunny", call_id="call_1")


def test_tools_come_with_the_reply_that_may_use_them() -> None:
    client = Client()
    client.send("session.update", session={"tools": [{"type": "function", "name": "clock"}]})
    client.asks_for_reply(tool_choice="required")
    want = client.wishes[-1].request
    assert ([tool.name for tool in want.tools], want.must_call) == (["clock"], "required")


def test_a_response_aside_is_no_part_of_the_conversation() -> None:
    client = Client()
    items = [{"type": "item_reference", "id": "a"}, user_item()]
    client.send("conversation.item.create", item=user_item(id="a"))
    key = client.asks_for_reply(conversation="none", input=items, output_modalities=["text"])
    events = client.happens(*TURN, *REPLY, ReplyStarted(2, key), ReplyText(2, "Aside"), ended())
    mine = [e for e in events if e.get("response_id") == key or e.get("response", {}).get("id") == key]
    assert kinds(mine)[-1] == "response.output_text.delta"
    assert mine[0]["response"]["conversation_id"] is None
    assert len(client.wishes[-1].request.messages) == 2


def test_a_reply_that_the_session_refuses_is_an_error_that_names_its_event() -> None:
    client = Client()
    client.send("response.create", event_id="mine")
    told = client.happens(ReplyStarted(1), ReplyRefused(client.wishes[-1].request.key))[-1]["error"]
    assert (told["code"], told["event_id"]) == ("conversation_already_has_active_response", "mine")


def test_only_the_response_that_is_named_is_cancelled() -> None:
    client = Client()
    key = client.asks_for_reply(conversation="none")
    client.happens(*TURN, *REPLY, ReplyStarted(7, key))
    client.send("response.cancel", response_id=key)
    assert client.wishes[-1] == CancelReply(key, 7)
    assert client.send("response.cancel", response_id="nobody")[0]["error"]["code"] == "response_cancel_not_active"


def test_speech_beside_a_reply_that_must_be_heard_out_takes_no_sound_from_it() -> None:
    client = Client()
    detection = {"type": "server_vad", "interrupt_response": False}
    client.send("session.update", session={"audio": {"input": {"turn_detection": detection}}})
    events = client.happens(*TURN, *REPLY, UserStarted(2, 1.0), ReplyAudio(1, bytes(960), 24_000))
    assert kinds(events)[-1] == "response.output_audio.delta"


def test_what_was_read_and_written_is_counted() -> None:
    usage = Client().happens(ReplyStarted(1), replace(ended(), read=PromptRead(40, 30)))[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (40, 1, 41)
    assert usage["input_token_details"]["cached_tokens"] == 30


def test_telephone_sound_leaves_as_telephone_sound() -> None:
    client = Client()
    client.send("session.update", session={"audio": {"output": {"format": {"type": "audio/pcmu"}}}})
    tone = (8_000 * np.sin(np.arange(24_000) / 5)).astype("<i2").tobytes()
    events = client.happens(ReplyStarted(1), ReplyText(1, "Hi"), ReplyAudio(1, tone, 24_000), ended())
    sound = b"".join(base64.b64decode(e["delta"]) for e in events if e["type"] == "response.output_audio.delta")
    assert len(sound) == 8_000


def test_silence_that_was_waited_out_becomes_an_item() -> None:
    assert kinds(Client().happens(NobodySpoke(1, 10.0, 20.0))) == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]


def test_words_of_a_reopened_turn_are_told_again_with_its_new_item() -> None:
    client = Client()
    client.send("session.update", session={"audio": {"input": {"transcription": {"model": "x"}}}})
    client.happens(UserStarted(1, 0.0), UserWords(1, "Hello"), TurnReopened(1))
    events = client.happens(UserWords(1, " there"), UserStopped(1, 9.0), UserTranscript(1, "Hello there you", 1.0))
    assert "".join(event["delta"] for event in events if event["type"].endswith(".delta")) == "Hello there you"


def test_a_transcript_that_failed_is_told_as_that_to_those_who_wanted_it() -> None:
    client = Client()
    client.send("session.update", session={"audio": {"input": {"transcription": {"model": "x"}}}})
    events = client.happens(UserStarted(1, 0.0), UserStopped(1, 1.0), TurnFailed(1, "no ears"))
    assert kinds(events)[-1] == "conversation.item.input_audio_transcription.failed"
    assert "error" not in kinds(events)


def test_there_is_a_limit_to_responses_beside_the_conversation() -> None:
    client = Client()
    told = [client.send("response.create", response={"conversation": "none", "input": []}) for _ in range(5)]
    assert [kinds(events) for events in told] == [[], [], [], [], ["error"]]


def test_in_private_mode_nothing_holds_the_words_of_a_turn_that_is_over() -> None:
    client = Client(private=True)
    client.happens(UserStarted(1, 0.0), UserWords(1, "Hello"), *TURN[1:])
    client.happens(TurnClosed(TurnRecord(1, transcript="Hello")))
    client.protocol.outgoing.clear()
    assert not found(client.protocol, "Hello")


def test_otherwise_the_items_keep_their_words() -> None:
    client = Client()
    client.happens(*TURN, TurnClosed(TurnRecord(1)))
    assert found(client.protocol._items, "Hello")
