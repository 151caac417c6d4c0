"""One reply on its way to a Realtime client: its events, from ``response.created`` to ``response.done``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audio.format import AudioFormat
from pipeline.events import ReplyEnded
from pipeline.history import reply_key
from pipeline.ports import ToolCall
from server.items import Items
from server.wire import event, new_id, rt
from server.wire_audio import SoundOut


@dataclass(frozen=True, slots=True)
class ResponseShape:
    """What is known of a response before it begins. ``told`` are the fields of its object that do not change."""

    response_id: str
    spoken: bool
    sound: AudioFormat
    in_conversation: bool
    told: dict[str, Any]
    cancelled: bool = False
    event_id: str | None = None  # of the client's event that asked for it


class OutgoingReply:
    """Keeps the ids of a response and its items; every method returns events to send, in order.

    The message item begins with its first word or sound: a reply may be nothing but calls. Outside the
    conversation nothing becomes an item of it.
    """

    def __init__(self, turn: int, shape: ResponseShape, items: Items) -> None:
        self.turn = turn
        self.shape = shape
        self.interrupted = False  # by the user's speech
        self.cancelled = shape.cancelled  # by the client
        self.message_id = ""
        self._items = items
        self._sound = SoundOut(shape.sound)
        self._message_index = 0
        self._outputs: list[dict[str, Any]] = []

    @property
    def response_id(self) -> str:
        """The response's id."""
        return self.shape.response_id

    def begin(self) -> list[str]:
        """The response exists."""
        return [event(rt.ResponseCreatedEvent, response=self._response("in_progress", None, None))]

    def text(self, delta: str) -> list[str]:
        """More words."""
        kind = rt.ResponseAudioTranscriptDeltaEvent if self.shape.spoken else rt.ResponseTextDeltaEvent
        return [*self._begin_message(), self._within(kind, delta=delta)] if delta else []

    def audio(self, pcm: bytes, rate_hz: int) -> list[str]:
        """More sound: 16-bit PCM."""
        delta = self._sound.push(pcm, rate_hz)
        return [*self._begin_message(), self._within(rt.ResponseAudioDeltaEvent, delta=delta)] if delta else []

    def call(self, call: ToolCall) -> list[str]:
        """A call, whole."""
        item = {"id": new_id("item"), "object": "realtime.item", "type": "function_call", "call_id": call.id}
        item |= {"name": call.name, "status": "in_progress", "arguments": ""}
        done = {**item, "status": "completed", "arguments": call.arguments}
        index = len(self._outputs)
        self._outputs.append(done)
        about = {"response_id": self.response_id, "output_index": index}
        within = {**about, "item_id": item["id"], "call_id": call.id}
        return [
            event(rt.ResponseOutputItemAddedEvent, **about, item=item),
            *self._to_conversation(item, call.id),
            event(rt.ResponseFunctionCallArgumentsDeltaEvent, **within, delta=call.arguments),
            event(rt.ResponseFunctionCallArgumentsDoneEvent, **within, arguments=call.arguments, name=call.name),
            *self._done(done),
            event(rt.ResponseOutputItemDoneEvent, **about, item=done),
        ]

    def end(self, ended: ReplyEnded) -> list[str]:
        """The response is over, and so is what of it is still open."""
        return [*self._end_message(ended), self._end_response(ended)]

    def _begin_message(self) -> list[str]:
        if self.message_id:
            return []
        self.message_id, self._message_index = new_id("item"), len(self._outputs)
        item = self._message("in_progress", [])
        self._outputs.append(item)
        part = {"type": "audio", "transcript": ""} if self.shape.spoken else {"type": "text", "text": ""}
        about = {"response_id": self.response_id, "output_index": self._message_index}
        return [
            event(rt.ResponseOutputItemAddedEvent, **about, item=item),
            *self._to_conversation(item, reply_key(self.turn)),
            self._within(rt.ResponseContentPartAddedEvent, part=part),
        ]

    def _end_message(self, ended: ReplyEnded) -> list[str]:
        if not self.message_id:
            return []
        rest = self._sound.finish() if ended.status == "completed" else ""
        events = [self._within(rt.ResponseAudioDeltaEvent, delta=rest)] if rest else []
        cut = self.shape.spoken and ended.status == "cancelled"
        text = ended.heard if cut else ended.text
        status = "completed" if ended.status == "completed" else "incomplete"
        if self.shape.spoken:
            part, content = {"type": "audio", "transcript": text}, {"type": "output_audio", "transcript": text}
            events += [
                self._within(rt.ResponseAudioDoneEvent),
                self._within(rt.ResponseAudioTranscriptDoneEvent, transcript=text),
            ]
        else:
            part, content = {"type": "text", "text": text}, {"type": "output_text", "text": text}
            events.append(self._within(rt.ResponseTextDoneEvent, text=text))
        item = self._outputs[self._message_index] = self._message(status, [content])
        about = {"response_id": self.response_id, "output_index": self._message_index}
        return [
            *events,
            self._within(rt.ResponseContentPartDoneEvent, part=part),
            *self._done(item),
            event(rt.ResponseOutputItemDoneEvent, **about, item=item),
        ]

    def _end_response(self, ended: ReplyEnded) -> str:
        response = self._response(ended.status, self._details(ended), _usage(ended))
        return event(rt.ResponseDoneEvent, response=response)

    def _response(
        self, status: str, details: dict[str, Any] | None, usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        progress = {"status": status, "status_details": details, "usage": usage}
        about = {"object": "realtime.response", "id": self.response_id, **progress}
        return {**about, **self.shape.told, "output": self._outputs}

    def _message(self, status: str, content: list[dict[str, str]]) -> dict[str, Any]:
        about = {"id": self.message_id, "object": "realtime.item", "type": "message", "status": status}
        return {**about, "role": "assistant", "content": content}

    def _to_conversation(self, item: dict[str, Any], key: str) -> list[str]:
        return self._items.add(item, key) if self.shape.in_conversation else []

    def _done(self, item: dict[str, Any]) -> list[str]:
        return self._items.done(item) if self.shape.in_conversation else []

    def _details(self, ended: ReplyEnded) -> dict[str, Any] | None:
        match ended.status:
            case "completed":
                return None
            case "cancelled":
                reason = "client_cancelled" if self.cancelled else "turn_detected"
                return {"type": "cancelled", "reason": reason}
            case "incomplete":
                return {"type": "incomplete", "reason": "max_output_tokens"}
            case "failed":
                error = {"type": "server_error", "code": "stage_failed", "message": ended.error}
                return {"type": "failed", "error": error}

    def _within(self, cls: Any, **fields: Any) -> str:
        about = {"response_id": self.response_id, "item_id": self.message_id}
        return event(cls, **about, output_index=self._message_index, content_index=0, **fields)


def _usage(ended: ReplyEnded) -> dict[str, Any] | None:
    """Tokens as they were counted; words in and words out, since sound is no tokens here."""
    if ended.read is None:
        return None
    read, written = ended.read, ended.reply_tokens
    cached = {"text_tokens": read.cached, "audio_tokens": 0, "image_tokens": 0}
    of_input = {"text_tokens": read.tokens, "audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": read.tokens + written,
        "input_tokens": read.tokens,
        "output_tokens": written,
        "input_token_details": {**of_input, "cached_tokens": read.cached, "cached_tokens_details": cached},
        "output_token_details": {"text_tokens": written, "audio_tokens": 0},
    }
