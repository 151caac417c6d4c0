"""Channel: the only way frames travel between stages. It has a limit, a policy and counters."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Overflow(Enum):
    """What a full channel does with the next item."""

    BLOCK = "block"
    DROP_OLDEST = "drop_oldest"


class ChannelClosed(Exception):
    """The channel was closed: nothing more can be sent, and all that was sent has been received."""


@dataclass(slots=True)
class ChannelStats:
    """Counters since the channel was made; ``peak`` is in the unit of the limit."""

    sent: int = 0
    received: int = 0
    dropped: int = 0
    peak: float = 0.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in a queue of sound at one moment, and how many pieces it has lost so far."""

    queue: str
    waiting_ms: float
    dropped: int = 0


class Channel(Generic[T]):
    """A bounded queue for one event loop.

    ``limit`` is in the unit that ``size`` measures an item in: items by default, milliseconds of sound where
    ``size`` says so. An item larger than the limit still fits into an empty channel, so nothing can get stuck.

    Cancelling ``send`` leaves the item out; cancelling ``receive`` leaves it in.
    """

    def __init__(
        self,
        name: str,
        limit: float,
        overflow: Overflow = Overflow.BLOCK,
        size: Callable[[T], float] = lambda _item: 1.0,
    ) -> None:
        self.name = name
        self.stats = ChannelStats()
        self._limit = limit
        self._overflow = overflow
        self._size = size
        self._items: deque[T] = deque()
        self._held = 0.0
        self._closed = False
        self._changed = asyncio.Condition()

    @property
    def depth(self) -> float:
        """What is queued now, in the unit of the limit."""
        return self._held

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called; items may still be waiting."""
        return self._closed

    async def send(self, item: T) -> None:
        """Queue an item; waits or drops the oldest when full. Raises ChannelClosed after ``close``."""
        async with self._changed:
            if self._overflow is Overflow.BLOCK:
                await self._changed.wait_for(lambda: self._closed or self._fits(item))
            if self._closed:
                raise ChannelClosed(self.name)
            while not self._fits(item):
                self._pop()
                self.stats.dropped += 1
            self._items.append(item)
            self._held += self._size(item)
            self.stats.sent += 1
            self.stats.peak = max(self.stats.peak, self._held)
            self._changed.notify_all()

    async def receive(self) -> T:
        """The next item; waits for one. Raises ChannelClosed once closed and empty."""
        async with self._changed:
            await self._wait_for_item()
            return self._take(1)[0]

    async def receive_some(self, most: float) -> list[T]:
        """All items that wait, up to ``most`` in the unit of the limit; one at least, which is waited for.

        Raises ChannelClosed once closed and empty.
        """
        async with self._changed:
            await self._wait_for_item()
            sizes = accumulate(self._size(item) for item in self._items)
            return self._take(max(1, sum(size <= most for size in sizes)))

    async def discard(self, unwanted: Callable[[T], bool] = lambda _item: True) -> int:
        """Drop what is queued and unwanted; returns how many items went."""
        async with self._changed:
            kept = deque(item for item in self._items if not unwanted(item))
            gone = len(self._items) - len(kept)
            self._items = kept
            self._held = sum(self._size(item) for item in kept)
            self.stats.dropped += gone
            self._changed.notify_all()
            return gone

    async def close(self) -> None:
        """Refuse further items; receivers get what is queued, then ChannelClosed."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __aiter__(self) -> AsyncIterator[T]:
        return self._until_closed(self.receive)

    def batches(self, most: float) -> AsyncIterator[list[T]]:
        """What ``receive_some`` returns, again and again until closed."""
        return self._until_closed(partial(self.receive_some, most))

    async def _until_closed(self, receive: Callable[[], Awaitable[R]]) -> AsyncIterator[R]:
        while True:
            try:
                received = await receive()
            except ChannelClosed:
                return
            yield received
            del received  # what was taken is the taker's alone, not held here until the next one comes

    async def _wait_for_item(self) -> None:
        await self._changed.wait_for(lambda: self._closed or bool(self._items))
        if not self._items:
            raise ChannelClosed(self.name)

    def _take(self, count: int) -> list[T]:
        items = [self._pop() for _ in range(count)]
        self.stats.received += count
        self._changed.notify_all()
        return items

    def _fits(self, item: T) -> bool:
        return not self._items or self._held + self._size(item) <= self._limit

    def _pop(self) -> T:
        item = self._items.popleft()
        self._held -= self._size(item)
        return item
