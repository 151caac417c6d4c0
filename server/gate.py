"""The gate: which requests may come in at all, and with whose key. Pure: requests in, verdicts out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from websockets.datastructures import Headers
from websockets.http11 import Request

from server.hosts import is_address, is_loopback
from server.keys import Keys, Visitor
from server.wire import event, rt

REALTIME_PATHS = frozenset({"/v1/realtime", "/realtime"})
KEY_PROTOCOL = "openai-insecure-api-key."
BETA_PROTOCOL = "openai-beta.realtime-v1"
UNAUTHENTICATED, BAD_REQUEST, GONE, TRY_LATER = 3000, 4000, 4004, 1013
FULL = "the server has as many conversations as it can hold, try again later"


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """Why a Realtime client is sent away: an ``error`` event, then a close with ``close_code``."""

    close_code: int
    code: str
    message: str

    @property
    def reason(self) -> str:
        """The close frame's reason."""
        return f"invalid_request_error.{self.code}" if self.close_code >= UNAUTHENTICATED else self.message

    def event(self) -> str:
        """The ``error`` event."""
        told = {"type": "invalid_request_error", "code": self.code, "message": self.message, "param": None}
        return event(rt.RealtimeErrorEvent, error={**told, "event_id": None})


class Gate:
    """Decides by keys, by the page that a browser is on, and by what is taken already."""

    def __init__(self, keys: Keys, origins: Iterable[str], sessions_per_key: int) -> None:
        self._keys = keys
        self._origins = frozenset(origin.rstrip("/") for origin in origins)
        self._sessions_per_key = sessions_per_key

    def admits_origin(self, headers: Headers) -> bool:
        """Whether a browser's page may connect; programs send no ``Origin`` and are not asked.

        Pages of this machine may, and the server's own. A name counts as the server's own only where a key is
        needed: anybody's name can be made to point here (DNS rebinding), an address cannot.
        """
        origin = headers.get("Origin")
        if origin is None or "*" in self._origins or origin in self._origins:
            return True
        host = urlsplit(origin).hostname or ""
        if is_loopback(host):
            return True
        own = bool(host) and urlsplit(origin).netloc == headers.get("Host")
        return own and (self._keys.required or is_address(host))

    def admits_operator(self, headers: Headers) -> bool:
        """Whether the server's own figures may be shown: to its own keys, and to no client secret.

        The keyless server of this machine shows them to whoever calls it by an address or as localhost: under any
        other name it may be a browser's page that asks (DNS rebinding).
        """
        if self._keys.required:
            return self._keys.is_own(bearer(headers))
        host = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
        return is_loopback(host) or is_address(host)

    def realtime_visitor(self, request: Request, sessions: Iterable[Visitor]) -> Visitor:
        """Who wants a session. Raises Refusal: no beta clients, no strangers, nobody beyond their share."""
        offered = offered_protocols(request.headers)
        if request.headers.get("OpenAI-Beta") or BETA_PROTOCOL in offered:
            message = "The Realtime beta API is not supported; use the GA API."
            raise Refusal(BAD_REQUEST, "beta_api_shape_disabled", message)
        visitor = self._keys.visitor(realtime_key(request.headers))
        if visitor is None:
            raise Refusal(UNAUTHENTICATED, "invalid_api_key", "Incorrect API key provided.")
        theirs = sum(other.owner == visitor.owner for other in sessions)
        if self._keys.required and theirs >= self._sessions_per_key:
            raise Refusal(TRY_LATER, "rate_limit_exceeded", "all sessions of this key are taken, try again later")
        return visitor

    def speech_visitor(self, request: Request) -> Visitor | None:
        """Whose key a speech client has, in the header or the query; None for none of ours."""
        query = parse_qs(urlsplit(request.path).query)
        given = request.headers.get("xi-api-key") or bearer(request.headers) or query.get("xi-api-key", [""])[0]
        return self._keys.visitor(given)


def realtime_key(headers: Headers) -> str:
    """The key of a Realtime client: the header, or what a browser can send in its place; "" for none."""
    in_protocol = (name for name in offered_protocols(headers) if name.startswith(KEY_PROTOCOL))
    return bearer(headers) or next(in_protocol, "").removeprefix(KEY_PROTOCOL)


def bearer(headers: Headers) -> str:
    """The token of an ``Authorization: Bearer`` header; "" for none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def offered_protocols(headers: Headers) -> list[str]:
    """The WebSocket subprotocols that a client offers."""
    return [name.strip() for line in headers.get_all("Sec-WebSocket-Protocol") for name in line.split(",")]
