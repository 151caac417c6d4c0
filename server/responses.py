"""The responses of one session: asked for, running, over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.events import ReplyAudio, ReplyCalled, ReplyEnded, ReplyRefused, ReplyStarted, ReplyText
from pipeline.ports import Message
from pipeline.requests import ReplyRequest
from server.given import MOST_PARTS, ProtocolError, given_item, given_object, given_string, message_of
from server.items import MOST_ITEMS, Items
from server.replies import OutgoingReply, ResponseShape
from server.session_object import defaults_of, is_spoken, setting, token_limit
from server.wire import new_id
from server.wire_audio import wire_format

MOST_ASIDE = 4  # each has a memory of its own

ReplyEvent = ReplyStarted | ReplyRefused | ReplyText | ReplyAudio | ReplyCalled | ReplyEnded


class Responses:
    """At most one response of the conversation runs or waits at a time; others run beside it."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._conversation_id = new_id("conv")
        self._asked: dict[str, ResponseShape] = {}
        self._running: dict[int, OutgoingReply] = {}
        self._turns: dict[str, int] = {}  # message item -> turn

    # --- what the client asks ---

    def ask(self, body: Mapping[str, Any], session: Mapping[str, Any]) -> ReplyRequest:
        """A ``response.create``: what the session is to do. Raises ProtocolError or ValidationError."""
        wanted = {} if body.get("response") is None else given_object(body, "response")
        wanted = {key: value for key, value in wanted.items() if value is not None}
        in_conversation = wanted.get("conversation") != "none"
        if in_conversation and (active := self._active_id()):
            raise _already_active(active)
        if not in_conversation and self._aside() >= MOST_ASIDE:
            message = f"More than {MOST_ASIDE} responses outside the conversation at a time."
            raise ProtocolError("rate_limit_exceeded", message)
        event_id = body.get("event_id")
        shape = replace(self.shape(session, wanted), event_id=event_id if isinstance(event_id, str) else None)
        request = self._request(wanted, session, shape)
        self._asked[shape.response_id] = shape
        return request

    def shape(self, session: Mapping[str, Any], wanted: Mapping[str, Any]) -> ResponseShape:
        """The response as it will be told. Raises ValidationError for what no client could read."""
        output = session["audio"]["output"]
        own = wanted.get("audio")
        own = own.get("output") if isinstance(own, dict) else None
        if isinstance(own, dict) and own.get("format") is not None:
            output = {**output, "format": setting("format", output["format"], own["format"])}
        spoken = is_spoken(wanted.get("output_modalities", session["output_modalities"]))
        in_conversation = wanted.get("conversation") != "none"
        told = {
            "conversation_id": self._conversation_id if in_conversation else None,
            "output_modalities": ["audio"] if spoken else ["text"],
            "max_output_tokens": wanted.get("max_output_tokens", session["max_output_tokens"]),
            "audio": {"output": {"format": output["format"], "voice": output["voice"]}},
            "metadata": wanted.get("metadata"),
        }
        shape = ResponseShape(new_id("resp"), spoken, wire_format(output["format"]), in_conversation, told)
        OutgoingReply(0, shape, self._items).begin()  # checks it
        return shape

    def to_cancel(self, response_id: object) -> tuple[str, int]:
        """A ``response.cancel``: key and turn of the response it means; the conversation's if it names none."""
        wanted = response_id if isinstance(response_id, str) else self._active_id()
        for turn, reply in self._running.items():
            if reply.response_id == wanted:
                reply.cancelled = True
                return reply.response_id, turn
        if wanted in self._asked:
            self._asked[wanted] = replace(self._asked[wanted], cancelled=True)
            return wanted, 0
        raise ProtocolError("response_cancel_not_active", "Cancellation failed: no active response found")

    def turn_of_item(self, item_id: str) -> int:
        """The turn whose reply this item is; 0 for other items."""
        return self._turns.get(item_id, 0)

    # --- what becomes of it ---

    def on_event(self, told: ReplyEvent, session: Mapping[str, Any]) -> list[str]:
        """The events that a client is told. Raises ProtocolError for a response that cannot be."""
        match told:
            case ReplyStarted(turn, key):
                shape = self._asked.pop(key, None) or self.shape(session, {})
                self._running[turn] = OutgoingReply(turn, shape, self._items)
                return self._running[turn].begin()
            case ReplyRefused(key):
                asked = self._asked.pop(key, None)
                raise _already_active(self._active_id() or "", asked.event_id if asked else None)
            case ReplyEnded(turn):
                ended = self._running.pop(turn, None)
                return ended.end(told) if ended else []
        reply = self._running.get(told.turn)
        return self._within(reply, told) if reply else []

    def interrupt(self) -> None:
        """The user takes the floor: no more sound of the conversation's response leaves."""
        for reply in self._running.values():
            reply.interrupted = reply.interrupted or reply.shape.in_conversation

    def _within(self, reply: OutgoingReply, told: ReplyText | ReplyAudio | ReplyCalled) -> list[str]:
        match told:
            case ReplyText(_, text):
                events = reply.text(text)
            case ReplyAudio(_, pcm, rate_hz):
                events = [] if reply.interrupted else reply.audio(pcm, rate_hz)
            case ReplyCalled(_, call):
                events = reply.call(call)
        if reply.message_id not in self._turns and reply.message_id:
            self._turns[reply.message_id] = reply.turn
            while len(self._turns) > MOST_ITEMS:
                del self._turns[next(iter(self._turns))]
        return events

    def _aside(self) -> int:
        shapes = [reply.shape for reply in self._running.values()] + list(self._asked.values())
        return sum(not shape.in_conversation for shape in shapes)

    def _active_id(self) -> str | None:
        """The conversation's response that runs or waits."""
        running = [reply.response_id for reply in self._running.values() if reply.shape.in_conversation]
        asked = [key for key, shape in self._asked.items() if shape.in_conversation]
        return next(iter(running + asked), None)

    def _request(
        self, wanted: Mapping[str, Any], session: Mapping[str, Any], shape: ResponseShape
    ) -> ReplyRequest:
        request = defaults_of(
            {**session, **{key: wanted[key] for key in ("tools", "tool_choice") if key in wanted}}
        )
        instructions = (
            given_string(wanted, "instructions", "response.instructions") if "instructions" in wanted else ""
        )
        return replace(
            request,
            key=shape.response_id,
            spoken=shape.spoken,
            in_conversation=shape.in_conversation,
            instructions=instructions,
            messages=self._messages(wanted["input"]) if "input" in wanted else None,
            max_tokens=token_limit(shape.told["max_output_tokens"]),
        )

    def _messages(self, given: object) -> tuple[Message, ...]:
        if not isinstance(given, list) or len(given) > MOST_PARTS:
            message = f"Invalid type for 'response.input': expected an array of up to {MOST_PARTS} items."
            raise ProtocolError("invalid_type", message, "response.input")
        messages = [message_of(self._input(one)) for one in given]
        return tuple(message for message in messages if message is not None)

    def _input(self, given: object) -> Mapping[str, Any]:
        if not isinstance(given, dict):
            message = "Invalid type for 'response.input': expected items."
            raise ProtocolError("invalid_type", message, "response.input")
        if given.get("type") == "item_reference":
            return self._items.find({"item_id": given.get("id")}, "retrieve")
        return given_item(given)


def _already_active(response_id: str, event_id: str | None = None) -> ProtocolError:
    return ProtocolError(
        "conversation_already_has_active_response",
        f"Conversation already has an active response in progress: {response_id}. "
        "Wait until the response is finished before creating a new one.",
        event_id=event_id,
    )
