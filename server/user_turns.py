"""The user's side of a conversation on the wire: speech begins and ends, becomes an item, is transcribed."""

from __future__ import annotations

from typing import Any, TypeVar

from pipeline.events import NobodySpoke, UserStarted, UserStopped, UserTranscript, UserWords
from pipeline.history import user_key
from server.items import Items
from server.wire import event, new_id, rt

K = TypeVar("K", int, str)

MOST_TURNS = 100  # whose items are remembered: events of older turns do not come any more


class UserTurns:
    """Keeps which turn is which item; every method returns events to send, in order.

    Partial transcripts only ever grow. They come while the user speaks, before the item exists.
    """

    def __init__(self, items: Items) -> None:
        self.transcribed = False  # whether the client wants transcripts
        self._items = items
        self._ids: dict[int, str] = {}
        self._words: dict[int, str] = {}  # what is certain of a turn's words
        self._told: dict[str, str] = {}  # what was told of an item's words

    def started(self, told: UserStarted) -> list[str]:
        """Speech began."""
        item_id = self._new_item(told.turn)
        start_ms = round(told.start_ms)
        return [event(rt.InputAudioBufferSpeechStartedEvent, audio_start_ms=start_ms, item_id=item_id)]

    def words(self, told: UserWords) -> list[str]:
        """More words are certain."""
        self._words[told.turn] = self._words.get(told.turn, "") + told.text
        item_id = self._ids.get(told.turn)
        return self._tell(item_id, self._words[told.turn]) if item_id else []

    def stopped(self, told: UserStopped) -> list[str]:
        """The turn is over and becomes an item."""
        events = []
        if told.end_ms is not None:
            item_id = self._ids.get(told.turn) or self._new_item(told.turn)
            end_ms = round(told.end_ms)
            events = [event(rt.InputAudioBufferSpeechStoppedEvent, audio_end_ms=end_ms, item_id=item_id)]
        return [*events, *self._committed(told.turn)]

    def transcript(self, told: UserTranscript) -> list[str]:
        """The words are known."""
        item_id, text = self._ids.get(told.turn, ""), told.text
        if item_id not in self._items:
            return []
        self._items[item_id]["content"] = [{"type": "input_audio", "transcript": text}]
        if not self.transcribed:
            return []
        self._words[told.turn] = text
        return [*self._tell(item_id, text), *self.completed(item_id, text, told.heard_s)]

    def completed(self, item_id: str, text: str, heard_s: float, place: int = 0) -> list[str]:
        """The words of an item's sound, all of them."""
        kind = rt.ConversationItemInputAudioTranscriptionCompletedEvent
        usage = {"type": "duration", "seconds": heard_s}
        told = event(kind, item_id=item_id, content_index=place, transcript=text, usage=usage)
        return [told] if self.transcribed else []

    def failed(self, turn: int, message: str) -> list[str]:
        """The words will not be known."""
        item_id = self._ids.get(turn, "")
        return self.unheard(item_id, message) if item_id in self._items else []

    def unheard(self, item_id: str, message: str, place: int = 0) -> list[str]:
        """The words of an item's sound will not be known."""
        if not self.transcribed:
            return []
        error = {"type": "server_error", "code": "transcription_failed", "message": message}
        kind = rt.ConversationItemInputAudioTranscriptionFailedEvent
        return [event(kind, item_id=item_id, content_index=place, error=error)]

    def reopened(self, turn: int) -> list[str]:
        """The item announced as the user's turn is taken back; the same turn goes on as a new item."""
        old = self._ids.get(turn, "")
        deleted = self._items.delete(old) if old in self._items else []
        item_id = self._new_item(turn)
        return [*deleted, event(rt.InputAudioBufferSpeechStartedEvent, audio_start_ms=0, item_id=item_id)]

    def forget_words(self, turn: int) -> None:
        """The turn is over, and nothing of what was said in it is to be kept."""
        self._words.pop(turn, None)
        self._told.pop(self._ids.get(turn, ""), None)

    def nobody_spoke(self, told: NobodySpoke) -> list[str]:
        """Silence that was waited out becomes an item without words."""
        kind = rt.InputAudioBufferTimeoutTriggered
        times = {"audio_start_ms": round(told.start_ms), "audio_end_ms": round(told.end_ms)}
        return [event(kind, **times, item_id=self._new_item(told.turn)), *self._committed(told.turn)]

    def _committed(self, turn: int) -> list[str]:
        item_id = self._ids.get(turn) or self._new_item(turn)
        content = [{"type": "input_audio", "transcript": None}]
        item: dict[str, Any] = {"id": item_id, "object": "realtime.item", "type": "message"}
        item |= {"status": "completed", "role": "user", "content": content}
        last = self._items.last_id
        return [
            event(rt.InputAudioBufferCommittedEvent, item_id=item_id, previous_item_id=last),
            *self._items.add(item, user_key(turn)),
            *self._items.done(item),
        ]

    def _new_item(self, turn: int) -> str:
        self._ids[turn] = new_id("item")
        for by_turn in (self._ids, self._words):
            _keep_newest(by_turn)
        _keep_newest(self._told)
        return self._ids[turn]

    def _tell(self, item_id: str, text: str) -> list[str]:
        """What the text has beyond what was told; nothing where it says something else."""
        told = self._told.get(item_id, "")
        if not self.transcribed or not text.startswith(told) or text == told:
            return []
        self._told[item_id] = text
        kind = rt.ConversationItemInputAudioTranscriptionDeltaEvent
        return [event(kind, item_id=item_id, content_index=0, delta=text[len(told) :])]


def _keep_newest(known: dict[K, str]) -> None:
    while len(known) > MOST_TURNS:
        del known[next(iter(known))]
