"""A session that outlives its connection: an Echoic server keeps it, and this client comes back to it."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from clients.realtime import (
    RealtimeClient,
    ServerEvent,
    ServerGone,
    Unreachable,
    expect_greeting,
    open_connection,
    parse,
    realtime_url,
    why_closed,
)
from pipeline.timing import loop_clock

LOST_EVENT = "client.lost"  # not from the server: the connection broke, and is being made anew
RESUMED_EVENT = "echoic.resumed"
# A network that is gone makes no sound: this is how soon that is noticed.
PING = {"ping_interval": 5, "ping_timeout": 10}
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 4.0  # between two tries
MOST_KEPT = 250  # events that wait for the connection, 5 s of the user's sound; the oldest sound goes first
APPEND = "input_audio_buffer.append"

# Opens a connection with this token, telling which event was the last to come.
OpenAgain = Callable[[str, str], Awaitable[ClientConnection]]


class ResumingClient(RealtimeClient):
    """A RealtimeClient whose connection may break: it comes back with the token, and is told what it missed.

    Iterating tells of it by a ``client.lost`` event, and then by the server's ``echoic.resumed``. What is sent
    meanwhile waits; blocks of sound that are too many are lost, and counted. A server that gave no token, or
    does not take the client back in time, is gone.
    """

    def __init__(self, socket: ClientConnection, open_again: OpenAgain) -> None:
        super().__init__(socket)
        self._open_again = open_again
        self._token, self._resume_s, self._last_event = "", 0.0, ""
        self._waiting: deque[dict[str, Any]] = deque()
        self._away = False
        self._lost_blocks = 0

    async def __aiter__(self) -> AsyncIterator[ServerEvent]:
        while True:
            try:
                event = parse(await self._socket.recv())
            except ConnectionClosedOK:
                return
            except ConnectionClosed as closed:
                if not self._token or closed.rcvd is not None:  # the server meant it
                    raise ServerGone(why_closed(closed)) from closed
                self._away = True
                yield ServerEvent(LOST_EVENT, {"type": LOST_EVENT}, loop_clock())
                event = await self._come_back(why_closed(closed))
            self._note(event)
            yield event

    async def send(self, event: dict[str, Any]) -> None:
        """Any client event; while the connection is broken it waits."""
        if not self._away:
            try:
                await self._socket.send(json.dumps(event))
                return
            except ConnectionClosed as closed:
                if not self._token or closed.rcvd is not None:
                    raise ServerGone(why_closed(closed)) from closed
        self._keep(event)

    async def receive(self) -> ServerEvent:
        """The next event. Raises ServerGone once the session is closed, or the connection broke."""
        event = await super().receive()
        self._note(event)
        return event

    def take_lost_blocks(self) -> int:
        """How many blocks of the user's sound could not be sent since the last call."""
        lost, self._lost_blocks = self._lost_blocks, 0
        return lost

    async def close(self) -> None:
        """Say goodbye: the server need not wait."""
        await self._socket.close()

    def _note(self, event: ServerEvent) -> None:
        self._last_event = event.body.get("event_id", self._last_event)
        if event.type == "echoic.session":
            self._token, self._resume_s = event.body["token"], event.body["resume_s"]

    def _keep(self, event: dict[str, Any]) -> None:
        self._waiting.append(event)
        if len(self._waiting) > MOST_KEPT:
            oldest = next((each for each in self._waiting if each["type"] == APPEND), self._waiting[0])
            self._waiting.remove(oldest)
            self._lost_blocks += 1

    async def _come_back(self, why: str) -> ServerEvent:
        """Try again and again for as long as the server keeps the session; returns the first event after that."""
        wait_s = FIRST_WAIT_S
        try:
            async with asyncio.timeout(self._resume_s):
                while True:
                    try:
                        return await self._resume()
                    except (Unreachable, ConnectionClosed) as error:
                        why = str(error) or why
                    await asyncio.sleep(wait_s)
                    wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        except TimeoutError:
            raise ServerGone(f"the connection broke and could not be made again: {why}") from None

    async def _resume(self) -> ServerEvent:
        socket = await self._open_again(self._token, self._last_event)
        first = parse(await socket.recv())
        if first.type != RESUMED_EVENT:
            await socket.close()
            raise ServerGone("the connection broke, and the server has not kept the session")
        self._socket = socket
        while self._waiting:  # in their order: what is sent meanwhile goes behind them
            await socket.send(json.dumps(self._waiting[0]))
            self._waiting.popleft()
        self._away = False
        return first


@asynccontextmanager
async def connect_resuming(url: str, *, key: str = "local", **extras: bool) -> AsyncIterator[ResumingClient]:
    """A session like that of ``connect``, which outlives its connection where the server can do that."""
    address = realtime_url(url, **extras, resume=True)
    client = ResumingClient(await open_connection(address, key, **PING), partial(_open_again, address, key))
    try:
        await expect_greeting(client, address)
        yield client
    finally:
        await client.close()


async def _open_again(address: str, key: str, token: str, last_event: str) -> ClientConnection:
    return await open_connection(f"{address}&{urlencode({'token': token, 'last': last_event})}", key, **PING)
