"""The OpenAI Realtime protocol, apart from any socket: client events in, server events and wishes out.

``receive`` takes what the client sent and returns what the session is asked to do; ``on_event`` takes what the
session tells and returns what the client is told. Part of the protocol so far: server-VAD audio turns, text turns
and ``response.cancel``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from audio.format import AudioFormat, Samples
from pipeline.events import (
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    SessionEvent,
    TurnClosed,
    TurnFailed,
    TurnReopened,
    UserStarted,
    UserStopped,
    UserTranscript,
    UserWords,
)
from pipeline.timing import TurnRecord
from server.replies import OutgoingReply
from server.session_object import merged, new_session
from server.wire import ConversationItemRetrieved, event, new_id, rt

MOST_ITEMS = 1_000
_RATES: dict[str, tuple[str, int]] = {
    "audio/pcm": ("pcm16", 24_000),
    "audio/pcmu": ("pcmu", 8_000),
    "audio/pcma": ("pcma", 8_000),
}


@dataclass(frozen=True, slots=True)
class HearSound:
    """Sound for the session: float32 mono at ``rate_hz``."""

    samples: Samples
    rate_hz: int


@dataclass(frozen=True, slots=True)
class TakeText:
    """Typed words of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class WantReply:
    """A reply is asked for; ``spoken`` or only written."""

    spoken: bool


@dataclass(frozen=True, slots=True)
class CancelReply:
    """The running reply is not wanted."""


@dataclass(frozen=True, slots=True)
class Instruct:
    """The system prompt changed."""

    instructions: str


Wish = HearSound | TakeText | WantReply | CancelReply | Instruct


class ProtocolError(Exception):
    """What the client sent cannot be done: told to it as an ``error`` event; the session goes on."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class RealtimeProtocol:
    """The state of one client's session as the protocol sees it."""

    def __init__(
        self, *, model: str, instructions: str, voice: str, extras: bool = False, private: bool = False
    ) -> None:
        """``extras``: tell of each turn's record. ``private``: keep no words of a turn that is over."""
        self.outgoing: list[str] = []  # to be sent, in order
        self._session = new_session(new_id("sess"), model, instructions, voice)
        self._conversation_id = new_id("conv")
        self._extras = extras
        self._private = private
        self._items: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._last_item: str | None = None
        self._user_items: dict[int, str] = {}  # turn -> the item its speech becomes
        self._told_words: dict[int, str] = {}
        self._reply: OutgoingReply | None = None
        self._metadata: list[dict[str, str] | None] = []
        self._modalities: list[list[str]] = []
        self._odd_byte = b""
        self._say(rt.SessionCreatedEvent, session=self._session)

    # --- from the client ---

    def receive(self, message: str | bytes) -> list[Wish]:
        """Take one message. What is wrong with it is answered by an ``error`` event; nothing is raised."""
        event_id: str | None = None
        try:
            if isinstance(message, bytes):
                raise ProtocolError("invalid_event", "Expected a text WebSocket message")
            body = _parse(message)
            event_id = body.get("event_id") if isinstance(body.get("event_id"), str) else None
            return self._dispatch(body)
        except ProtocolError as error:
            self._refuse(error, event_id)
        except ValidationError as error:
            self._refuse(_invalid(error), event_id)
        return []

    def _dispatch(self, body: dict[str, Any]) -> list[Wish]:
        actions: dict[str, Callable[[dict[str, Any]], list[Wish]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
            "output_audio_buffer.clear": lambda _body: [],
        }
        kind = body.get("type")
        if not isinstance(kind, str) or kind not in actions:
            supported = ", ".join(f"'{name}'" for name in actions)
            raise ProtocolError(
                "invalid_value", f"Invalid value: '{kind}'. Supported values are: {supported}.", "type"
            )
        return actions[kind](body)

    def _update(self, body: dict[str, Any]) -> list[Wish]:
        before, updated = self._session, merged(self._session, _object(body, "session"))
        self._say(rt.SessionUpdatedEvent, session=updated)
        self._session = updated
        told = updated["instructions"]
        return [Instruct(told)] if told and told != before["instructions"] else []

    def _append(self, body: dict[str, Any]) -> list[Wish]:
        try:
            data = self._odd_byte + base64.b64decode(_string(body, "audio"), validate=True)
        except binascii.Error as error:
            raise ProtocolError("invalid_value", f"Invalid audio: not base64 ({error}).", "audio") from error
        encoding, rate_hz = _RATES.get(self._session["audio"]["input"]["format"]["type"], _RATES["audio/pcm"])
        sound = AudioFormat(encoding, rate_hz)  # type: ignore[arg-type]  # the table holds only known encodings
        whole = len(data) - len(data) % sound.frame_bytes
        self._odd_byte = data[whole:]
        return [HearSound(sound.decode(data[:whole]), rate_hz)]

    def _clear(self, body: dict[str, Any]) -> list[Wish]:
        self._odd_byte = b""
        self._say(rt.InputAudioBufferClearedEvent)
        return []

    def _create_item(self, body: dict[str, Any]) -> list[Wish]:
        given = _object(body, "item")
        item = {"status": "completed", "object": "realtime.item", **given}
        item["id"] = given["id"] if isinstance(given.get("id"), str) else new_id("item")
        if item["id"] in self._items:
            message = f"Error adding item: an item with id '{item['id']}' exists already."
            raise ProtocolError("item_create_duplicate_item_id", message, "item.id")
        text = _text_of(item)
        self._finish_item(item, self._add_item(item))
        return [TakeText(text)] if item.get("role") == "user" and text else []

    def _retrieve_item(self, body: dict[str, Any]) -> list[Wish]:
        self._say(ConversationItemRetrieved, item=self._find(body, "retrieve"))
        return []

    def _truncate_item(self, body: dict[str, Any]) -> list[Wish]:
        """The reply was already cut where it was heard: audio leaves at the pace of its being heard."""
        item = self._find(body, "truncate")
        end_ms = body.get("audio_end_ms")
        self._say(
            rt.ConversationItemTruncatedEvent,
            item_id=item["id"],
            content_index=0,
            audio_end_ms=max(0, int(end_ms)) if isinstance(end_ms, int | float) else 0,
        )
        return []

    def _delete_item(self, body: dict[str, Any]) -> list[Wish]:
        self._remove_item(self._find(body, "delete")["id"])
        return []

    def _create_response(self, body: dict[str, Any]) -> list[Wish]:
        if self._reply is not None:
            raise ProtocolError(
                "conversation_already_has_active_response",
                f"Conversation already has an active response in progress: {self._reply.response_id}. "
                "Wait until the response is finished before creating a new one.",
            )
        wanted = rt.ResponseCreateEvent.model_validate(body).response
        modalities = (wanted and wanted.output_modalities) or self._session["output_modalities"]
        spoken = "audio" in modalities
        self._modalities.append(["audio"] if spoken else ["text"])
        self._metadata.append(wanted.metadata if wanted else None)
        return [WantReply(spoken)]

    def _cancel_response(self, body: dict[str, Any]) -> list[Wish]:
        if self._reply is None:
            raise ProtocolError("response_cancel_not_active", "Cancellation failed: no active response found")
        return [CancelReply()]

    # --- from the session ---

    def on_event(self, told: SessionEvent) -> None:
        """Turn one session event into server events. Events of a reply that is over are dropped."""
        match told:
            case UserStarted():
                self._user_started(told)
            case UserWords(turn, text):
                self._user_words(turn, text)
            case UserStopped():
                self._user_stopped(told)
            case UserTranscript():
                self._user_transcript(told)
            case TurnReopened(turn):
                self._turn_reopened(turn)
            case ReplyStarted(turn):
                self._reply_started(turn)
            case ReplyText(turn, text):
                if reply := self._running(turn):
                    self.outgoing += reply.text(text)
            case ReplyAudio(turn, pcm):
                if (reply := self._running(turn)) and not reply.interrupted:
                    self.outgoing += reply.audio(pcm)
            case ReplyEnded():
                self._reply_ended(told)
            case TurnFailed(turn, error):
                self._refuse(ProtocolError("turn_failed", f"Turn {turn} failed: {error}"), None, "server_error")
            case TurnClosed(record):
                self._turn_closed(record)

    def fail(self, message: str, code: str = "internal_error") -> None:
        """Tell the client what ends its session."""
        self._refuse(ProtocolError(code, message), None, "server_error")

    def _user_started(self, started: UserStarted) -> None:
        item_id = self._user_items[started.turn] = new_id("item")
        if self._reply is not None:
            self._reply.interrupted = True
        self._say(rt.InputAudioBufferSpeechStartedEvent, audio_start_ms=round(started.start_ms), item_id=item_id)

    def _user_words(self, turn: int, text: str) -> None:
        """Deltas before the item exists are for clients that asked for extras: some others stumble over them."""
        if self._extras and turn in self._user_items:
            self._told_words[turn] = self._told_words.get(turn, "") + text
            self._transcript_delta(self._user_items[turn], text)

    def _user_stopped(self, stopped: UserStopped) -> None:
        item_id = self._user_items[stopped.turn]
        self._say(rt.InputAudioBufferSpeechStoppedEvent, audio_end_ms=round(stopped.end_ms), item_id=item_id)
        self._say(rt.InputAudioBufferCommittedEvent, item_id=item_id, previous_item_id=self._last_item)
        item = {
            "id": item_id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        self._finish_item(item, self._add_item(item))

    def _user_transcript(self, heard: UserTranscript) -> None:
        item_id = self._user_items.get(heard.turn)
        if item_id is None or item_id not in self._items:
            return
        self._items[item_id]["content"] = [{"type": "input_audio", "transcript": heard.text}]
        told = self._told_words.pop(heard.turn, "")
        if self._session["audio"]["input"]["transcription"] is None:
            return
        rest = heard.text[len(told) :] if heard.text.startswith(told) else ""
        if rest:
            self._transcript_delta(item_id, rest)
        self._say(
            rt.ConversationItemInputAudioTranscriptionCompletedEvent,
            item_id=item_id,
            content_index=0,
            transcript=heard.text,
            usage={"type": "duration", "seconds": heard.heard_s},
        )

    def _transcript_delta(self, item_id: str, delta: str) -> None:
        self._say(
            rt.ConversationItemInputAudioTranscriptionDeltaEvent, item_id=item_id, content_index=0, delta=delta
        )

    def _turn_reopened(self, turn: int) -> None:
        """The item announced as the user's turn is taken back; the same turn goes on as a new item."""
        self._remove_item(self._user_items[turn])
        self._user_started(UserStarted(turn, 0.0))

    def _reply_started(self, turn: int) -> None:
        asked = bool(self._modalities)
        self._reply = OutgoingReply(
            turn=turn,
            session=self._session,
            conversation_id=self._conversation_id,
            modalities=self._modalities.pop(0) if asked else self._session["output_modalities"],
            metadata=self._metadata.pop(0) if asked else None,
        )
        self.outgoing += self._reply.begin()
        self._reply.previous_item = self._add_item(self._reply.item())
        self.outgoing += self._reply.begin_content()

    def _reply_ended(self, ended: ReplyEnded) -> None:
        reply = self._running(ended.turn)
        if reply is None:
            return
        self._reply = None
        self.outgoing += reply.end_content(ended)
        self._finish_item(reply.item(ended), reply.previous_item)
        self.outgoing += reply.end(ended)

    def _turn_closed(self, record: TurnRecord) -> None:
        if self._extras:
            extra = {"type": "echoic.turn", "event_id": new_id("event"), "record": record.as_dict()}
            self.outgoing.append(json.dumps(extra))
        if self._private:
            self._forget_words()

    def _running(self, turn: int) -> OutgoingReply | None:
        return self._reply if self._reply is not None and self._reply.turn == turn else None

    # --- items and errors ---

    def _add_item(self, item: dict[str, Any]) -> str | None:
        """Append an item; returns the id of the one before it."""
        self._say(rt.ConversationItemAdded, item=item, previous_item_id=self._last_item)
        previous, self._last_item = self._last_item, item["id"]
        self._items[item["id"]] = item
        while len(self._items) > MOST_ITEMS:
            self._items.popitem(last=False)
        return previous

    def _finish_item(self, item: dict[str, Any], previous: str | None) -> None:
        self._items[item["id"]] = item
        self._say(rt.ConversationItemDone, item=item, previous_item_id=previous)

    def _remove_item(self, item_id: str) -> None:
        self._items.pop(item_id, None)
        if self._last_item == item_id:
            self._last_item = next(reversed(self._items), None)
        self._say(rt.ConversationItemDeletedEvent, item_id=item_id)

    def _forget_words(self) -> None:
        """The items stay, since a client may refer to them; what was said in them goes."""
        self._told_words.clear()
        for item_id in self._items:
            self._items[item_id] = self._items[item_id] | {"content": []}

    def _find(self, body: dict[str, Any], verb: str) -> dict[str, Any]:
        item_id = _string(body, "item_id")
        if item_id not in self._items:
            message = f"Error {verb[:-1]}ing item: the item with id '{item_id}' does not exist."
            raise ProtocolError(f"item_{verb}_invalid_item_id", message, "item_id")
        return self._items[item_id]

    def _say(self, cls: Any, **fields: Any) -> None:
        self.outgoing.append(event(cls, **fields))

    def _refuse(self, error: ProtocolError, event_id: str | None, kind: str = "invalid_request_error") -> None:
        told = {"type": kind, "code": error.code, "message": str(error), "param": error.param}
        self._say(rt.RealtimeErrorEvent, error={**told, "event_id": event_id})


def _parse(message: str) -> dict[str, Any]:
    try:
        body = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("invalid_json", "Invalid event: failed to parse JSON value.") from error
    if not isinstance(body, dict):
        raise ProtocolError("invalid_event", "Invalid event: expected a JSON object.")
    return body


def _invalid(error: ValidationError) -> ProtocolError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return ProtocolError("invalid_value", f"Invalid value for '{where}': {first['msg']}.", where)


def _object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    if not isinstance(value, dict):
        raise ProtocolError("invalid_type", f"Invalid type for '{key}': expected an object.", key)
    return value


def _string(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ProtocolError("invalid_type", f"Invalid type for '{key}': expected a string.", key)
    return value


def _text_of(item: dict[str, Any]) -> str:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "input_text"]
    return " ".join(text for text in texts if isinstance(text, str))
