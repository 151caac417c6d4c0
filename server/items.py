"""The conversation's items as a client sees them: in order, found by id, each with its key in the history."""

from __future__ import annotations

from typing import Any

from server.given import ProtocolError, given_string
from server.wire import ConversationItemRetrieved, event, rt

MOST_ITEMS = 1_000


class Items:
    """What is in the conversation. Methods that change it return the events that say so."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Any]] = {}
        self._keys: dict[str, str] = {}

    @property
    def last_id(self) -> str | None:
        """The newest item's id."""
        return next(reversed(self._items), None)

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    def __getitem__(self, item_id: str) -> dict[str, Any]:
        return self._items[item_id]

    def key(self, item_id: str) -> str:
        """Under which the history keeps it."""
        return self._keys[item_id]

    def keys_before(self, item_id: str) -> tuple[str, ...]:
        """The keys of everything before an item."""
        ids = list(self._items)
        return tuple(self._keys[one] for one in ids[: ids.index(item_id)])

    def add(self, item: dict[str, Any], key: str, after: str | None = None) -> list[str]:
        """Put an item at the end, or behind another one; "root" is the front. Raises ProtocolError."""
        item_id = item["id"]
        if item_id in self._items:
            message = f"Error adding item: an item with id '{item_id}' exists already."
            raise ProtocolError("item_create_duplicate_item_id", message, "item.id")
        if after not in (None, "root") and after not in self._items:
            message = f"Error adding item: the previous item with id '{after}' does not exist."
            raise ProtocolError("item_create_invalid_previous_item_id", message, "previous_item_id")
        previous = self.last_id if after is None else after
        self._place(item, previous)
        self._keys[item_id] = key
        while len(self._items) > MOST_ITEMS:
            self._drop(next(iter(self._items)))
        return [event(rt.ConversationItemAdded, item=item, previous_item_id=_shown(previous))]

    def done(self, item: dict[str, Any]) -> list[str]:
        """The item is as it will stay; nothing of one that was deleted meanwhile."""
        item_id = item["id"]
        if item_id not in self._items:
            return []
        self._items[item_id] = item
        ids = list(self._items)
        place = ids.index(item_id)
        previous = ids[place - 1] if place else None
        return [event(rt.ConversationItemDone, item=item, previous_item_id=previous)]

    def delete(self, item_id: str) -> list[str]:
        """Take an item out."""
        self._drop(item_id)
        return [event(rt.ConversationItemDeletedEvent, item_id=item_id)]

    def retrieve(self, item_id: str) -> list[str]:
        """Tell what is in an item."""
        return [event(ConversationItemRetrieved, item=self._items[item_id])]

    def forget_words(self) -> None:
        """The items stay, since a client may refer to them; what was said in them goes."""
        self._items = {item_id: {**item, "content": []} for item_id, item in self._items.items()}

    def find(self, body: dict[str, Any], verb: str) -> dict[str, Any]:
        """The item that a client's event names. Raises ProtocolError."""
        item_id = given_string(body, "item_id")
        if item_id not in self._items:
            message = f"Error {verb[:-1]}ing item: the item with id '{item_id}' does not exist."
            raise ProtocolError(f"item_{verb}_invalid_item_id", message, "item_id")
        return self._items[item_id]

    def _place(self, item: dict[str, Any], previous: str | None) -> None:
        if previous == self.last_id:
            self._items[item["id"]] = item
            return
        entries = list(self._items.items())
        place = 0 if previous == "root" else list(self._items).index(str(previous)) + 1
        self._items = dict([*entries[:place], (item["id"], item), *entries[place:]])

    def _drop(self, item_id: str) -> None:
        del self._items[item_id], self._keys[item_id]


def _shown(previous: str | None) -> str | None:
    return None if previous == "root" else previous
