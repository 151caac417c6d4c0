"""Plain HTTP on the WebSocket port, for requests with a body.

websockets answers GET and nothing else, and one small POST is no reason for a second server framework: h11, a
parser without I/O, reads it here, in front of the connection that would have been a WebSocket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed

from server.naps import NappingConnection

LARGEST_BODY = 64 * 1024
Headline = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """An HTTP request that is no GET, whole."""

    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class PlainResponse:
    """An answer as JSON."""

    status: int
    body: dict[str, Any]
    headers: tuple[Headline, ...] = field(default=())

    @classmethod
    def error(cls, status: int, code: str, message: str, headers: tuple[Headline, ...] = ()) -> PlainResponse:
        """A failure as the OpenAI API tells it."""
        told = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        return cls(status, {"error": told}, headers)


Answer = Callable[[PlainRequest], PlainResponse]


class DoorConnection(NappingConnection):
    """A WebSocket; or, where the first byte is not that of a GET, one plain request and its answer."""

    answer: Answer

    def data_received(self, data: bytes) -> None:
        """Hand the data to whom it is for."""
        if self._plain is None and self.request is None and not data.startswith(b"G"):
            self._plain = _Exchange(self.answer)
        if self._plain is None:
            super().data_received(data)
        elif reply := self._plain.receive(data):
            self.transport.write(reply)
            self.transport.close()

    async def handshake(self, *args: Any, **options: Any) -> None:
        """The WebSocket handshake; a plain request has none, nor has one who leaves without a word."""
        try:
            await super().handshake(*args, **options)
        except ConnectionClosed:
            pass  # who asked did not wait for the answer
        except Exception:
            if self.request is not None:
                raise

    _plain: _Exchange | None = None


class _Exchange:
    """One request and its answer."""

    def __init__(self, answer: Answer) -> None:
        self._http = h11.Connection(h11.SERVER)
        self._answer = answer
        self._request: h11.Request | None = None
        self._body = b""

    def receive(self, data: bytes) -> bytes:
        """The answer as bytes, b"" while the request is not complete."""
        if self._http.our_state is not h11.IDLE and self._http.our_state is not h11.SEND_RESPONSE:
            return b""
        try:
            self._http.receive_data(data)
            return self._next()
        except h11.RemoteProtocolError as error:
            return self._write(PlainResponse.error(error.error_status_hint, "invalid_request", str(error)))

    def _next(self) -> bytes:
        while True:
            event = self._http.next_event()
            match event:
                case h11.Request():
                    self._request = event
                case h11.Data(data=part):
                    self._body += part
                    if len(self._body) > LARGEST_BODY:
                        message = f"the body is larger than {LARGEST_BODY} bytes"
                        return self._write(PlainResponse.error(413, "too_large", message))
                case h11.EndOfMessage():
                    return self._write(self._answer(self._whole()))
                case _:
                    return b""

    def _whole(self) -> PlainRequest:
        request = self._request
        assert request is not None  # h11 ends no message before it began
        headers = Headers([(name.decode(), value.decode("latin-1")) for name, value in request.headers])
        return PlainRequest(request.method.decode(), request.target.decode(), headers, self._body)

    def _write(self, response: PlainResponse) -> bytes:
        body = json.dumps(response.body).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
            *response.headers,
        ]
        parts = (
            h11.Response(status_code=response.status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        return b"".join(self._http.send(part) or b"" for part in parts)
