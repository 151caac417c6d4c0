"""One reply on its way to a Realtime client: its events, from ``response.created`` to ``response.done``."""

from __future__ import annotations

import base64
from typing import Any

from pipeline.events import ReplyEnded
from server.wire import event, new_id, rt


class OutgoingReply:
    """Keeps the ids of a response and its one message item; every method returns events to send, in order."""

    def __init__(
        self,
        *,
        turn: int,
        session: dict[str, Any],
        conversation_id: str,
        modalities: list[str],
        metadata: dict[str, str] | None,
    ) -> None:
        self.turn = turn
        self.response_id = new_id("resp")
        self.interrupted = False
        self.previous_item: str | None = None
        self._item_id = new_id("item")
        self._spoken = "audio" in modalities
        output = session["audio"]["output"]
        self._response: dict[str, Any] = {
            "object": "realtime.response",
            "id": self.response_id,
            "conversation_id": conversation_id,
            "output_modalities": ["audio"] if self._spoken else ["text"],
            "max_output_tokens": session["max_output_tokens"],
            "audio": {"output": {"format": output["format"], "voice": output["voice"]}},
            "metadata": metadata,
            "usage": None,
        }

    def begin(self) -> list[str]:
        """The response exists, and so does its item, still empty."""
        response = {**self._response, "status": "in_progress", "status_details": None, "output": []}
        return [
            event(rt.ResponseCreatedEvent, response=response),
            event(rt.ResponseOutputItemAddedEvent, response_id=self.response_id, output_index=0, item=self.item()),
        ]

    def begin_content(self) -> list[str]:
        """The item gets its one part."""
        part = {"type": "audio", "transcript": ""} if self._spoken else {"type": "text", "text": ""}
        return [self._within(rt.ResponseContentPartAddedEvent, part=part)]

    def text(self, delta: str) -> list[str]:
        """More words."""
        kind = rt.ResponseAudioTranscriptDeltaEvent if self._spoken else rt.ResponseTextDeltaEvent
        return [self._within(kind, delta=delta)] if delta else []

    def audio(self, pcm: bytes) -> list[str]:
        """More sound."""
        return [self._within(rt.ResponseAudioDeltaEvent, delta=base64.b64encode(pcm).decode("ascii"))]

    def end_content(self, ended: ReplyEnded) -> list[str]:
        """No more words or sound."""
        text = self._final_text(ended)
        if not self._spoken:
            part = {"type": "text", "text": text}
            done = [self._within(rt.ResponseTextDoneEvent, text=text)]
        else:
            part = {"type": "audio", "transcript": text}
            done = [
                self._within(rt.ResponseAudioDoneEvent),
                self._within(rt.ResponseAudioTranscriptDoneEvent, transcript=text),
            ]
        return [*done, self._within(rt.ResponseContentPartDoneEvent, part=part)]

    def end(self, ended: ReplyEnded) -> list[str]:
        """The response is over; sent after the item is done."""
        item = self.item(ended)
        response = {
            **self._response,
            "status": ended.status,
            "status_details": self._details(ended),
            "output": [item],
        }
        return [
            event(rt.ResponseOutputItemDoneEvent, response_id=self.response_id, output_index=0, item=item),
            event(rt.ResponseDoneEvent, response=response),
        ]

    def item(self, ended: ReplyEnded | None = None) -> dict[str, Any]:
        """The message item, in progress or as it ended."""
        content: list[dict[str, str]] = []
        status = "in_progress"
        if ended is not None:
            status = "completed" if ended.status == "completed" else "incomplete"
            text = self._final_text(ended)
            content = [
                {"type": "output_audio", "transcript": text}
                if self._spoken
                else {"type": "output_text", "text": text}
            ]
        return {
            "id": self._item_id,
            "object": "realtime.item",
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _final_text(self, ended: ReplyEnded) -> str:
        """All of it, or what was heard of a spoken reply that was cut."""
        return ended.heard if self._spoken and ended.status == "cancelled" else ended.text

    def _details(self, ended: ReplyEnded) -> dict[str, Any] | None:
        match ended.status:
            case "completed":
                return None
            case "cancelled":
                reason = "turn_detected" if self.interrupted else "client_cancelled"
                return {"type": "cancelled", "reason": reason}
            case "incomplete":
                return {"type": "incomplete", "reason": "max_output_tokens"}
            case "failed":
                error = {"type": "server_error", "code": "stage_failed", "message": ended.error}
                return {"type": "failed", "error": error}

    def _within(self, cls: Any, **fields: Any) -> str:
        return event(
            cls, response_id=self.response_id, item_id=self._item_id, output_index=0, content_index=0, **fields
        )
