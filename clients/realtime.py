"""A small client of the OpenAI Realtime protocol: sound and text in, events out."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from audio.format import AudioFormat
from pipeline.ports import EchoicError, InputError
from pipeline.timing import loop_clock

RATE_HZ = 24_000  # the only rate of audio/pcm in this protocol
WIRE = AudioFormat("pcm16", RATE_HZ)
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
GREETING_TIMEOUT_S = 10.0


class ServerGone(EchoicError):
    """The server refused the session, or closed it in the middle."""


class Unreachable(ServerGone):
    """Nobody answers at the server's address."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event from the server, with the loop's time at which it was read."""

    type: str
    body: dict[str, Any]
    received_at: float


class RealtimeClient:
    """One session. Iterate over it for the server's events until the server closes.

    Nothing is queued here: events that are not read wait in the socket, whose buffers are bounded, and ``append``
    waits while the socket is full.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def __aiter__(self) -> AsyncIterator[ServerEvent]:
        try:
            async for message in self._socket:
                yield parse(message)
        except ConnectionClosed as closed:
            raise ServerGone(why_closed(closed)) from closed

    async def receive(self) -> ServerEvent:
        """The next event. Raises ServerGone once the session is closed."""
        try:
            return parse(await self._socket.recv())
        except ConnectionClosed as closed:
            raise ServerGone(why_closed(closed)) from closed

    async def send(self, event: dict[str, Any]) -> None:
        """Any client event, as a dict with its ``type``. Raises ServerGone once the session is closed."""
        try:
            await self._socket.send(json.dumps(event))
        except ConnectionClosed as closed:
            raise ServerGone(why_closed(closed)) from closed

    async def configure(self, **session: Any) -> None:
        """Change settings of the session; what is left out stays as it is."""
        await self.send({"type": "session.update", "session": {"type": "realtime", **session}})

    async def append(self, pcm: bytes) -> None:
        """Sound from the user: PCM s16le mono at 24 kHz."""
        await self.send({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode("ascii")})

    async def say(self, text: str, *, answer: Literal["audio", "text"] = "audio") -> None:
        """A typed turn, answered as sound or as text."""
        content = [{"type": "input_text", "text": text}]
        await self.send(
            {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": content}}
        )
        await self.send({"type": "response.create", "response": {"output_modalities": [answer]}})

    def take_lost_blocks(self) -> int:
        """How many blocks of the user's sound could not be sent since the last call."""
        return 0

    async def cancel(self) -> None:
        """Stop the reply that is being made."""
        await self.send({"type": "response.cancel"})


@asynccontextmanager
async def connect(url: str, *, key: str = "local", **extras: bool) -> AsyncIterator[RealtimeClient]:
    """A session at ``url`` (ws, wss, http or https; ``/realtime`` is appended where it is missing).

    ``timing`` asks an Echoic server for its latency record after every turn, ``words`` for the user's newest words
    and for when each word of a reply sounds. Raises InputError for an unusable
    URL and ServerGone when nobody answers, or answers with a refusal.
    """
    address = realtime_url(url, **extras)
    socket = await open_connection(address, key)
    async with socket:
        client = RealtimeClient(socket)
        await expect_greeting(client, address)
        yield client


async def open_connection(address: str, key: str, **options: Any) -> ClientConnection:
    """A connection to the endpoint. Raises Unreachable when nobody answers."""
    try:
        return await open_socket(
            address,
            additional_headers={"Authorization": f"Bearer {key}"},
            compression=None,  # sound does not compress, and the attempt delays it
            max_size=MAX_MESSAGE_BYTES,
            close_timeout=2,
            **options,
        )
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise Unreachable(f"no Realtime server at {address}: {error}. Start one with: echoic serve") from error


def realtime_url(url: str, **extras: bool) -> str:
    """The WebSocket address of the Realtime endpoint under a server's base URL, asking for these extras."""
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    try:
        usable = scheme in ("ws", "wss") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, or out of range
        usable = False
    if not usable:
        raise InputError(f"not a WebSocket address: {url} (expected something like ws://127.0.0.1:8080/v1)")
    path = parts.path.rstrip("/") or "/v1"
    if not path.endswith("/realtime"):
        path += "/realtime"
    asked = parse_qsl(parts.query, keep_blank_values=True)
    asked += [("echoic", extra) for extra, on in extras.items() if on]
    return urlunsplit((scheme, parts.netloc, path, urlencode(asked), ""))


async def expect_greeting(client: RealtimeClient, address: str) -> None:
    """Wait for the session to be made. Raises ServerGone where it is not."""
    try:
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            first = await client.receive()
    except TimeoutError as error:
        raise ServerGone(f"{address} accepted the connection and then said nothing") from error
    if first.type == "error":
        raise ServerGone(f"{address} refused the session: {error_message(first)}")
    if first.type != "session.created":
        raise ServerGone(f"{address} does not speak the Realtime protocol: it began with {first.type!r}")


def error_message(event: ServerEvent) -> str:
    """The human part of an ``error`` event."""
    error = event.body.get("error") or {}
    return str(error.get("message") or error.get("code") or "an error without a message")


def parse(message: str | bytes) -> ServerEvent:
    """A message of the server, as it is read now. Raises ServerGone where it is no event."""
    try:
        body = json.loads(message)
        return ServerEvent(body["type"], body, loop_clock())
    except (ValueError, KeyError, TypeError) as error:
        raise ServerGone(f"the server sent something that is no event: {message[:80]!r}") from error


def why_closed(closed: ConnectionClosed) -> str:
    """How a connection ended, in words."""
    if closed.rcvd is None:
        return "the connection to the server broke"
    reason = f" ({closed.rcvd.reason})" if closed.rcvd.reason else ""
    return f"the server closed the session with code {closed.rcvd.code}{reason}"
