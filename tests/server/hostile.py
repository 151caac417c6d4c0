"""Clients that send anything at all: random events, in any order, with ids that are known or not."""

from __future__ import annotations

import base64
import json
import random
import string
from typing import Any

KINDS = (
    "session.update input_audio_buffer.append input_audio_buffer.commit input_audio_buffer.clear "
    "conversation.item.create conversation.item.retrieve conversation.item.truncate conversation.item.delete "
    "response.create response.cancel output_audio_buffer.clear nope"
).split()
FIELDS = (
    "session audio item item_id previous_item_id audio_end_ms content_index response response_id event_id type "
    "role content text transcript call_id name arguments output input output format rate turn_detection threshold "
    "silence_duration_ms eagerness create_response interrupt_response idle_timeout_ms transcription model voice "
    "speed tools tool_choice parameters instructions max_output_tokens output_modalities metadata conversation "
    "prefix_padding_ms noise_reduction truncation tracing prompt include id"
).split()
WORDS = (
    "audio text auto none required realtime transcription server_vad semantic_vad message function_call user "
    "function_call_output assistant system input_text input_audio output_text output_audio input_image audio/pcm "
    "audio/pcmu audio/pcma low high root item_reference function inf a b c"
).split()


class Hostile:
    """A source of frames; the same seed gives the same frames."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ids = ["a", "b", "c", "root", ""]

    def learn(self, told: dict[str, Any]) -> None:
        """Remember an id that the server told, to use it again."""
        for value in (told.get("item_id"), told.get("response_id"), (told.get("item") or {}).get("id")):
            if isinstance(value, str):
                self._ids = [*self._ids[-30:], value]

    def frame(self) -> str | bytes:
        """The next one."""
        match self._random.random():
            case chance if chance < 0.02:
                return self._random.randbytes(self._random.randrange(200))
            case chance if chance < 0.06:
                whole = json.dumps(self._event())
                return whole[: self._random.randrange(len(whole))]
            case chance if chance < 0.5:
                return json.dumps(self._plausible())
        return json.dumps(self._event())

    def _event(self) -> dict[str, Any]:
        return {**self._object(3), "type": self._random.choice([*KINDS, self._value(1)])}

    def _plausible(self) -> dict[str, Any]:
        """An event that is nearly right."""
        pick, an_id = self._random.choice, self._random.choice(self._ids)
        part = {"type": pick(["input_text", "output_text", "input_audio"]), "text": pick(WORDS), "transcript": "x"}
        item = {"id": an_id, "type": pick(WORDS), "role": pick(["user", "assistant", "system"]), "content": [part]}
        item |= {"call_id": an_id, "name": "f", "arguments": pick(["{}", "[", '{"a": 1}']), "output": "out"}
        detection = pick([None, {"type": "server_vad", **self._object(1)}, {"type": "semantic_vad"}])
        audio = {"input": {"turn_detection": detection, "format": {"type": pick(WORDS)}}}
        event = pick(
            [
                {"type": "input_audio_buffer.append", "audio": self._sound()},
                {"type": "input_audio_buffer.commit"},
                {"type": "conversation.item.create", "item": item, "previous_item_id": pick([None, *self._ids])},
                {"type": "conversation.item.truncate", "item_id": an_id, "audio_end_ms": self._value(1)},
                {"type": "conversation.item.retrieve", "item_id": an_id},
                {"type": "conversation.item.delete", "item_id": an_id},
                {"type": "response.create", "response": pick([None, {}, self._object(2), {"input": [item]}])},
                {"type": "response.cancel", "response_id": pick([None, an_id])},
                {"type": "session.update", "session": {"audio": audio, **self._object(2)}},
            ]
        )
        return {**event, "event_id": pick([None, "mine", 3])}

    def _sound(self) -> str:
        sound = base64.b64encode(self._random.randbytes(self._random.randrange(3000))).decode()
        return sound[: len(sound) - self._random.choice([0, 0, 0, 1, 2, 3])]

    def _object(self, depth: int) -> dict[str, Any]:
        keys = self._random.sample(FIELDS, self._random.randrange(5))
        return {key: self._value(depth) for key in keys}

    def _value(self, depth: int) -> Any:
        choice = self._random.choice
        leaf = [None, True, False, 0, -1, 3, 1e300, 10**30, float("nan"), 0.5, "", "\x00", "\ud83d", "🙂" * 20]
        if depth <= 0 or self._random.random() < 0.5:
            return choice(
                [*leaf, choice(WORDS), choice(self._ids), "".join(self._random.sample(string.printable, 9))]
            )
        return choice(
            [self._object(depth - 1), [self._value(depth - 1) for _ in range(self._random.randrange(3))]]
        )
