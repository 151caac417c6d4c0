"""The OpenAI Realtime protocol, apart from any socket: client events in, server events and wishes out.

``receive`` takes what the client sent and returns what the session is asked to do; ``on_event`` takes what the
session tells. What the client is to be told collects in ``outgoing``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from pipeline.events import (
    MemoryHeld,
    NobodySpoke,
    ReplyWord,
    SessionEvent,
    TurnClosed,
    TurnFailed,
    TurnReopened,
    UserStarted,
    UserStopped,
    UserTail,
    UserTranscript,
    UserWords,
)
from pipeline.ports import RATE_HZ
from server.extras import extra_event
from server.given import ProtocolError, given_item, given_number, given_object, given_string, message_of
from server.items import Items
from server.responses import Responses
from server.session_object import SESSION_LIFE_S, defaults_of, detection_of, merged, new_session, shown
from server.user_turns import UserTurns
from server.wire import event, new_id, rt
from server.wire_audio import SoundIn, recordings, wire_format
from server.wishes import (
    CancelReply,
    Configure,
    DropSound,
    Forget,
    HearSound,
    Remember,
    TakeSound,
    Truncate,
    Understand,
    WantReply,
    Wish,
)

SHORTEST_COMMIT_MS = 100.0
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class RealtimeProtocol:
    """The state of one client's session as the protocol sees it."""

    def __init__(
        self,
        *,
        model: str,
        instructions: str,
        voice: str,
        lasts_s: float = SESSION_LIFE_S,
        extras: bool = False,
        private: bool = False,
    ) -> None:
        self.outgoing: list[str] = []  # to be sent, in order
        self._session = new_session(new_id("sess"), model, instructions, voice, lasts_s)
        self._extras = extras
        self._private = private  # no words of a turn outlive it
        self._interrupts = True
        self._items = Items()
        self._users = UserTurns(self._items)
        self._responses = Responses(self._items)
        self._sound = SoundIn()
        self._say(rt.SessionCreatedEvent, session=self._session)
        self._actions: dict[str, Callable[[dict[str, Any]], list[Wish]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
            "output_audio_buffer.clear": lambda _body: [],  # the client plays the sound itself
        }

    @property
    def session_id(self) -> str:
        """The session's name, as the client knows it."""
        name: str = self._session["id"]
        return name

    # --- from the client ---

    def receive(self, message: str | bytes) -> list[Wish]:
        """Take one message. What is wrong with it is answered by an ``error`` event; nothing is raised."""
        event_id: str | None = None
        try:
            if isinstance(message, bytes):
                raise ProtocolError("invalid_event", "Expected a text WebSocket message")
            body = _parse(message)
            event_id = body["event_id"] if isinstance(body.get("event_id"), str) else None
            return self._dispatch(body)
        except ProtocolError as error:
            self._refuse(error, event_id)
        except ValidationError as error:
            self._refuse(_invalid(error), event_id)
        return []

    def _dispatch(self, body: dict[str, Any]) -> list[Wish]:
        kind = body.get("type")
        if not isinstance(kind, str) or kind not in self._actions:
            supported = ", ".join(f"'{name}'" for name in self._actions)
            raise ProtocolError(
                "invalid_value", f"Invalid value: '{kind}'. Supported values are: {supported}.", "type"
            )
        return self._actions[kind](body)

    def _update(self, body: dict[str, Any]) -> list[Wish]:
        wanted = merged(self._session, given_object(body, "session"))
        told = event(rt.SessionUpdatedEvent, session=shown(wanted))
        # What is kept is what was checked: "0.5" has become a number by then.
        session = {**wanted, **json.loads(told)["session"]}
        session["audio"] = {**wanted["audio"], **session["audio"]}
        detection, defaults = detection_of(session), defaults_of(session)
        self._responses.shape(session, {})
        self._session, self._interrupts = session, detection.interrupts
        self._users.transcribed = session["audio"]["input"]["transcription"] is not None
        self._sound.use(wire_format(session["audio"]["input"]["format"]))
        self.outgoing.append(told)
        return [Configure(session["instructions"], detection, defaults)]

    def _append(self, body: dict[str, Any]) -> list[Wish]:
        return [HearSound(self._sound.push(given_string(body, "audio")))]

    def _commit(self, body: dict[str, Any]) -> list[Wish]:
        if self._sound.held_ms < SHORTEST_COMMIT_MS:
            message = (
                "Error committing input audio buffer: buffer too small. Expected at least "
                f"{SHORTEST_COMMIT_MS:.0f}ms of audio, but buffer only has {self._sound.held_ms:.2f}ms of audio."
            )
            raise ProtocolError("input_audio_buffer_commit_empty", message)
        return [HearSound(self._sound.commit()), TakeSound()]

    def _clear(self, body: dict[str, Any]) -> list[Wish]:
        self._sound.clear()
        self._say(rt.InputAudioBufferClearedEvent)
        return [DropSound()]

    def _create_item(self, body: dict[str, Any]) -> list[Wish]:
        given = given_object(body, "item")
        item = given_item(given)
        sounds = recordings(given, item, self._sound.format)
        previous = body.get("previous_item_id")
        after = previous if isinstance(previous, str) else None
        self.outgoing += [*self._items.add(item, _key(item["id"]), after), *self._items.done(item)]
        before = self._items.keys_before(item["id"])
        if sounds:
            return [Understand(item, sounds, before)]
        return self._remember(item, None if after is None else before)

    def understood(self, wish: Understand, words: Mapping[int, str]) -> list[Wish]:
        """The words of an item's recordings: part of the conversation, and told."""
        content = [
            {**part, "transcript": words[place]} if place in words else part
            for place, part in enumerate(wish.item["content"])
        ]
        item = {**wish.item, "content": content}
        if item["id"] in self._items:
            self._items[item["id"]]["content"] = content
        for place, text in words.items():
            heard_s = len(wish.recordings[place]) / RATE_HZ
            self.outgoing += self._users.completed(item["id"], text, heard_s, place)
        return self._remember(item, wish.after)

    def not_understood(self, wish: Understand, error: str) -> None:
        """The item stays without words."""
        item_id = wish.item["id"]
        told = [one for place in wish.recordings for one in self._users.unheard(item_id, error, place)]
        self.outgoing += told
        if not told:
            message = f"The sound of item '{item_id}' was not understood: {error}"
            self._refuse(ProtocolError("transcription_failed", message, kind="server_error"), None)

    def _remember(self, item: Mapping[str, Any], before: tuple[str, ...] | None) -> list[Wish]:
        message = message_of(item)
        return [] if message is None else [Remember(_key(item["id"]), message, before)]

    def _retrieve_item(self, body: dict[str, Any]) -> list[Wish]:
        self.outgoing += self._items.retrieve(self._items.find(body, "retrieve")["id"])
        return []

    def _truncate_item(self, body: dict[str, Any]) -> list[Wish]:
        """Never refused for what it says of the sound: an error would end some clients' sessions."""
        item_id = self._items.find(body, "truncate")["id"]
        end_ms = max(0, round(given_number(body, "audio_end_ms")))
        about = {"item_id": item_id, "content_index": 0, "audio_end_ms": end_ms}
        self.outgoing.append(event(rt.ConversationItemTruncatedEvent, **about))
        turn = self._responses.turn_of_item(item_id)
        return [Truncate(item_id, turn, end_ms)] if turn else []

    def truncated(self, item_id: str, heard: str) -> None:
        """Of this item's reply only these words were heard; one that is still running ends with them."""
        if item_id in self._items and self._items[item_id]["content"]:
            self._items[item_id]["content"] = [{"type": "output_audio", "transcript": heard}]

    def _delete_item(self, body: dict[str, Any]) -> list[Wish]:
        item_id = self._items.find(body, "delete")["id"]
        key, turn = self._items.key(item_id), self._responses.turn_of_item(item_id)
        self.outgoing += self._items.delete(item_id)
        # A reply that is still running is remembered at its end: as nothing.
        return [Truncate(item_id, turn, 0), Forget(key)] if turn else [Forget(key)]

    def _create_response(self, body: dict[str, Any]) -> list[Wish]:
        if self._session["type"] == "transcription":
            raise ProtocolError("invalid_value", "A transcription session makes no responses: response.create.")
        return [WantReply(self._responses.ask(body, self._session))]

    def _cancel_response(self, body: dict[str, Any]) -> list[Wish]:
        key, turn = self._responses.to_cancel(body.get("response_id"))
        return [CancelReply(key, turn)]

    # --- from the session ---

    def on_event(self, told: SessionEvent) -> None:
        """Turn one session event into server events. Events of a reply that is over are dropped."""
        try:
            self.outgoing += self._told(told)
        except ProtocolError as error:
            self._refuse(error, error.event_id)

    def _told(self, told: SessionEvent) -> list[str]:
        match told:
            case UserStarted():
                if self._interrupts:
                    self._responses.interrupt()
                return self._users.started(told)
            case UserWords():
                return self._users.words(told)
            case UserStopped():
                return self._users.stopped(told)
            case UserTranscript():
                return self._users.transcript(told)
            case TurnReopened(turn):
                return self._users.reopened(turn)
            case NobodySpoke():
                return self._users.nobody_spoke(told)
            case TurnFailed(turn, error):
                return self._turn_failed(turn, error)
            case TurnClosed(record):
                if self._private:
                    self._items.forget_words()
                    self._users.forget_words(record.turn)
                return [extra_event("turn", record=record.as_dict())] if self._extras else []
            case UserTail() | ReplyWord() | MemoryHeld():
                return []  # the Realtime protocol has no words for these; see extras.py
            case _:
                return self._responses.on_event(told, self._session)

    def _turn_failed(self, turn: int, error: str) -> list[str]:
        """Told once, and where it can be as a failed transcription: some clients end at their first ``error``."""
        if failed := self._users.failed(turn, error):
            return failed
        raise ProtocolError("turn_failed", f"Turn {turn} failed: {error}", kind="server_error")

    def fail(self, message: str, code: str = "internal_error") -> None:
        """Tell the client what ends its session."""
        self._refuse(ProtocolError(code, message, kind="server_error"), None)

    def _say(self, cls: Any, **fields: Any) -> None:
        self.outgoing.append(event(cls, **fields))

    def _refuse(self, error: ProtocolError, event_id: str | None) -> None:
        told = {"type": error.kind, "code": error.code, "message": str(error), "param": error.param}
        self._say(rt.RealtimeErrorEvent, error={**told, "event_id": event_id})


def _key(item_id: str) -> str:
    """Under which the history keeps a client's item: no id is taken for a key of the session's own."""
    return f"item:{item_id}"


def _parse(message: str) -> dict[str, Any]:
    try:
        body = _JSON.decode(message)
        if _SURROGATE.search(message):  # half a character is no text that could be sent on
            body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("invalid_json", "Invalid event: failed to parse JSON value.") from error
    if not isinstance(body, dict):
        raise ProtocolError("invalid_event", "Invalid event: expected a JSON object.")
    return body


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


_JSON = json.JSONDecoder(parse_constant=_no_number)


def _invalid(error: ValidationError) -> ProtocolError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return ProtocolError("invalid_value", f"Invalid value for '{where}': {first['msg']}.", where)
