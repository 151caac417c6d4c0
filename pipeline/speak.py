"""The speech stage: a reply's tokens to speech over a WebSocket that speaks the ElevenLabs protocol.

One multi-context socket a session, one context (``speech_context``) a reply or draft. The server may be the one in
this process, one on another machine or the hosted service.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.protocol import State

from pipeline.channel import Backlog
from pipeline.ports import StageError
from pipeline.socket_log import socket_log
from pipeline.speech_context import SpeechContext
from pipeline.speech_wire import ServerMessage, stream_url

CONNECT_TIMEOUT_S = 5.0
SEND_TIMEOUT_S = 5.0  # a server that takes no text for this long is as good as dead
CLOSE_TIMEOUT_S = 1.0
MAX_MESSAGE_BYTES = 1 << 24  # some servers send a phrase in one message


class SpeechLink:
    """The session's way to speech: one socket, made for the first reply and made anew after it was lost.

    ``async with SpeechLink(...) as link`` belongs into the task that owns the session: it owns the task that reads
    the socket, and on leaving every context ends, the socket is closed and that task is done.

    ``url`` is the server's base, for example ``ws://127.0.0.1:8080`` or ``wss://api.elevenlabs.io``; a query in it
    (``?model_id=...``) is passed on. The server has to speak ``pcm_{rate_hz}``.
    """

    def __init__(self, url: str, voice: str, rate_hz: int = 24_000, api_key: str | None = None) -> None:
        self._url = stream_url(url, voice, rate_hz)
        self._rate_hz = rate_hz
        self._headers = {"xi-api-key": api_key} if api_key else {}
        self._numbers = itertools.count(1)
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None
        self._ahead: asyncio.Task[None] | None = None
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        # The reader has ended by itself. What the body raised is not the group's business; a bug in the reader is.
        await self._tasks.__aexit__(None, None, None)

    @property
    def backlog(self) -> Backlog:
        """Sound that was made and that no reply has taken yet."""
        return Backlog("speech", self._connection.waiting_ms if self._connection is not None else 0.0)

    async def open(self, context: str, speed: float = 1.0) -> SpeechContext:
        """A context for one reply or draft; connects if need be. Raises StageError if it cannot.

        ``speed`` is within ``speech_wire.SPEEDS``.
        """
        connection = await self._connected()
        # A number, because a late message of a cancelled context must not reach a new one of the same name.
        return connection.open(f"{context}-{next(self._numbers)}", speed)

    def connect_ahead(self) -> None:
        """A reply is to be expected: connect if need be, so that it does not wait for it."""
        if self._ahead is None or self._ahead.done():
            self._ahead = self._tasks.create_task(self._connect_ahead())

    async def close(self) -> None:
        """End what is open, with a StageError for who still listens, and close the socket."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait([self._ahead])
        if self._connection is not None:
            await self._connection.close("the session has ended")

    async def _connect_ahead(self) -> None:
        with suppress(StageError):  # the reply will meet the same failure, or none by then
            await self._connected()

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or not self._connection.is_open:
                self._connection = _Connection(await self._connect(), _without_query(self._url), self._rate_hz)
                self._tasks.create_task(self._connection.run_reader())
            return self._connection

    async def _connect(self) -> ClientConnection:
        host = urlsplit(self._url).hostname
        try:
            return await connect(
                self._url,
                additional_headers=self._headers,
                open_timeout=CONNECT_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                max_size=MAX_MESSAGE_BYTES,
                logger=socket_log(),
                compression=None,  # base64 of noise-like samples hardly shrinks
                proxy=None if host in ("127.0.0.1", "::1", "localhost") else True,
            )
        except (OSError, InvalidHandshake, InvalidURI) as error:
            where = _without_query(self._url)
            raise StageError("speech", f"cannot connect to {where}: {error}; is the speech server up?") from error


class _Connection:
    """One socket with the contexts that live on it: when it dies, they fail."""

    def __init__(self, socket: ClientConnection, peer: str, rate_hz: int) -> None:
        self._socket = socket
        self._peer = peer
        self._rate_hz = rate_hz
        self._contexts: dict[str, SpeechContext] = {}
        self._closing = False

    @property
    def waiting_ms(self) -> float:
        return sum(context.waiting_ms for context in self._contexts.values())

    @property
    def is_open(self) -> bool:
        return not self._closing and self._socket.state is State.OPEN

    def open(self, name: str, speed: float) -> SpeechContext:
        self._contexts[name] = context = SpeechContext(self, name, self._rate_hz, speed)
        return context

    def forget(self, context: SpeechContext) -> bool:
        """Whether the context was still in use; whatever comes for it from now on is ignored."""
        return self._contexts.pop(context.name, None) is not None

    async def send(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.send(json.dumps(message))
        except ConnectionClosed as error:
            raise StageError("speech", f"the connection to {self._peer} was lost: {error}") from error
        except TimeoutError as error:
            raise StageError("speech", f"{self._peer} took no text for {SEND_TIMEOUT_S} s") from error

    async def fail(self, context: SpeechContext, reason: str) -> None:
        """End one context with an error; the others go on."""
        self.forget(context)
        await context.end(reason)
        await self.drop(context.name)

    async def drop(self, name: str) -> None:
        """Have the server stop a context. ``immediate`` is this project's own; elsewhere it finishes unheard."""
        with suppress(StageError):  # then the server has stopped all of them
            await self.send({"context_id": name, "close_context": True, "immediate": True})

    async def close(self, reason: str) -> None:
        self._closing = True
        while self._contexts:
            await self._contexts.popitem()[1].end(reason)
        await self._socket.close()

    async def run_reader(self) -> None:
        """Hand every message to its context until the socket closes; then whoever is left has failed."""
        reason = f"{self._peer} closed the connection"
        try:
            async for raw in self._socket:
                await self._dispatch(raw)
        except ConnectionClosed as error:
            reason = f"the connection to {self._peer} was lost: {error}"
        except _ServerError as error:
            reason = f"{self._peer}: {error}"
        await self.close(reason)

    async def _dispatch(self, raw: str | bytes) -> None:
        try:
            message = ServerMessage.model_validate_json(raw)
        except ValidationError as error:
            raise _ServerError(f"a message that is none of this protocol: {error.errors()[0]['msg']}") from error
        context = self._contexts.get(message.context or "")
        if message.error is not None:
            text = message.message or message.error
            if message.context is None:
                raise _ServerError(text)
            if context is not None:
                await self.fail(context, f"{self._peer}: {text}")
        elif context is not None:
            await context.receive(message)
            if message.final:
                self.forget(context)


class _ServerError(Exception):
    """The server reports that it cannot go on, or sends what this protocol does not know."""


def _without_query(url: str) -> str:
    return url.partition("?")[0]
