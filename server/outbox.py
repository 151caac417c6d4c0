"""Outbox: what a client is to be told, in order, bounded in milliseconds of sound."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

EVENT_MS = 1.0  # what an event without sound counts for, so that nothing grows


class OutboxFull(Exception):
    """The client does not take what it is told."""


@dataclass(frozen=True, slots=True)
class _Message:
    text: str
    ms: float


class Outbox:
    """Messages for one client, each told once.

    It never waits for the client: what cannot be kept raises OutboxFull.
    """

    def __init__(self, limit_ms: float) -> None:
        self._limit_ms = limit_ms
        self._unsent: deque[_Message] = deque()
        self._unsent_ms = 0.0
        self._grew = asyncio.Event()

    @property
    def unsent_ms(self) -> float:
        """Sound that waits for the client."""
        return self._unsent_ms

    def push(self, texts: Iterable[str], sound_ms: float = 0.0) -> None:
        """More to tell; ``sound_ms`` is how long the sound in it lasts. Raises OutboxFull."""
        for text in texts:
            message = _Message(text, max(sound_ms, EVENT_MS))
            self._unsent.append(message)
            self._unsent_ms += message.ms
        self._grew.set()
        if self._unsent_ms > self._limit_ms:
            raise OutboxFull(f"{self._unsent_ms:.0f} ms of sound wait to be taken")

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
        return message.text

    def __len__(self) -> int:
        return len(self._unsent)
