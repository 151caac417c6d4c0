"""A small real server of the chat completions API, whose models are ways to answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "a-key"
WORDS = ("The ", "answer ", "is ", "ten.")


class ChatServer(ThreadingHTTPServer):
    """``words`` answers, ``cut`` and ``endless`` do not end well, ``stalled`` stops; there are no others."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.requests: list[dict[str, Any]] = []
        self.abandoned = threading.Event()  # a client left in the middle
        self.may_go_on = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Exchange(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, **body})
        if self.headers["Authorization"] != f"Bearer {KEY}":
            self._refuse(401, "wrong key")
        elif body["model"] not in ("words", "cut", "endless", "stalled", "garbage"):
            self._refuse(404, f"model {body['model']!r} not found")
        else:
            self._stream(body["model"])

    def _stream(self, model: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for word in WORDS:
                self._say({"content": word})
            if model == "garbage":
                self.wfile.write(b"data: {not json\n\n")
            while model == "endless":
                self._say({"content": "and "})
            if model == "stalled":
                self.server.may_go_on.wait(10)
            if model == "words":
                self._say({}, "stop")
                self.wfile.write(b"data: [DONE]\n\n")
        except ConnectionError:
            self.server.abandoned.set()

    def _say(self, delta: dict[str, str], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """The server, on a thread of its own."""
    with ChatServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.may_go_on.set()
            server.shutdown()
            thread.join()
