"""The server seen from outside: ``/healthz`` and ``/livez`` for balancers, ``/metrics`` for Prometheus."""

from __future__ import annotations

import json
from http import HTTPStatus

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from server.gate import Gate
from server.health import ServerState
from server.watch import Watch

JSON = "application/json"
NOT_FOR_ALL = (
    b"metrics are for one of the server's own keys (Authorization: Bearer KEY), or where it has none "
    b"for this machine, by its address\n"
)


class StatusPages:
    """Answers GET requests for what is going on; nothing of it is anybody's words."""

    def __init__(self, watch: Watch, gate: Gate) -> None:
        self._watch = watch
        self._gate = gate

    def response(self, path: str, request: Request) -> Response | None:
        """The answer, or None where the path is none of these.

        Everybody is told whether to send somebody here; details and metrics are for operators.
        """
        match path:
            case "/healthz":
                return self._health((state := self._watch.state()), state.ready, request)
            case "/livez":
                return self._health((state := self._watch.state()), state.alive, request)
            case "/metrics" if self._gate.admits_operator(request.headers):
                return _answer(HTTPStatus.OK, *self._watch.metrics.scrape(request.headers.get("Accept", "")))
            case "/metrics":
                return _answer(HTTPStatus.UNAUTHORIZED, "text/plain; charset=utf-8", NOT_FOR_ALL)
        return None

    def _health(self, state: ServerState, well: bool, request: Request) -> Response:
        told = state.report() if self._gate.admits_operator(request.headers) else {"status": state.status}
        return _answer(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, JSON, json.dumps(told).encode())


def _answer(status: HTTPStatus, kind: str, body: bytes) -> Response:
    headers = {
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
    }
    return Response(status, status.phrase, Headers(headers), body)
