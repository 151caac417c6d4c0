"""Outbox: what a client is to be told, in order, bounded in milliseconds of sound."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.channel import Backlog

EVENT_MS = 1.0  # what an event without sound counts for, so that nothing grows


class OutboxFull(Exception):
    """The client does not take what it is told."""


@dataclass(frozen=True, slots=True)
class _Message:
    text: str
    ms: float


class Outbox:
    """Messages for one client, each told once, unless it comes back and has missed some.

    It never waits for the client: what cannot be kept raises OutboxFull. With ``kept_ms`` the newest messages that
    were told are kept, so many milliseconds of sound, for a client whose connection may have swallowed them.
    """

    def __init__(self, limit_ms: float, kept_ms: float = 0.0) -> None:
        self._limit_ms = self._roof_ms = limit_ms
        self._kept_ms = kept_ms
        self._unsent: deque[_Message] = deque()
        self._unsent_ms = 0.0
        self._told: deque[_Message] = deque()
        self._told_ms = 0.0
        self._forgotten = 0
        self._grew = asyncio.Event()

    @property
    def backlog(self) -> Backlog:
        """Sound that waits for the client; an event without sound counts as 1 ms."""
        return Backlog("outbox", self._unsent_ms)

    def push(self, texts: Iterable[str], sound_ms: float = 0.0) -> None:
        """More to tell; ``sound_ms`` is how long the sound in it lasts. Raises OutboxFull."""
        for text in texts:
            message = _Message(text, max(sound_ms, EVENT_MS))
            self._unsent.append(message)
            self._unsent_ms += message.ms
        self._grew.set()
        if self._unsent_ms > self._roof_ms:
            raise OutboxFull(f"{self._unsent_ms:.0f} ms of sound wait to be taken")

    def put_first(self, text: str) -> None:
        """Tell this before all else that waits."""
        self._unsent.appendleft(_Message(text, EVENT_MS))
        self._unsent_ms += EVENT_MS
        self._grew.set()

    async def next(self) -> str:
        """The next message, as soon as there is one."""
        while not self._unsent:
            self._grew.clear()
            await self._grew.wait()
        return self.take()

    def take(self) -> str:
        """The next message; raises IndexError where there is none."""
        message = self._unsent.popleft()
        self._unsent_ms -= message.ms
        self._told.append(message)
        self._told_ms += message.ms
        while self._told_ms > self._kept_ms:
            self._told_ms -= self._told.popleft().ms
            self._forgotten += 1
        return message.text

    def hold(self) -> None:
        """The client is away: what waits for it by now does not count against the limit."""
        self._roof_ms = self._unsent_ms + self._limit_ms

    def rewind(self, last_event: str) -> int:
        """Tell what came after this event again, or all that is kept; returns how many are lost for good."""
        mark = f'"event_id":"{last_event}"'
        after = next((index for index, one in enumerate(self._told, 1) if mark in _compact(one.text)), 0)
        again = [self._told.pop() for _ in range(len(self._told) - after)]
        for message in again:
            self._unsent.appendleft(message)
            self._unsent_ms += message.ms
            self._told_ms -= message.ms
        self.hold()
        return 0 if after else self._forgotten

    def __len__(self) -> int:
        return len(self._unsent)


def _compact(text: str) -> str:
    return text.replace('": "', '":"')
