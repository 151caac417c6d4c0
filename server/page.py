"""The page to try Echoic with: a few files, no build step, nothing from elsewhere."""

from __future__ import annotations

from http import HTTPStatus
from importlib.resources import files

from websockets.datastructures import Headers
from websockets.http11 import Response

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The page may talk to its own server and run its own scripts, and that is all it may do.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


class Page:
    """The page's files by path, read once."""

    def __init__(self) -> None:
        folder = files("server") / "web"
        self._files = {
            f"/{file.name}": (_TYPES[file.name.rpartition(".")[2]], file.read_bytes()) for file in folder.iterdir()
        }
        self._files["/"] = self._files["/index.html"]

    def response(self, path: str) -> Response | None:
        """The file at this path, or None."""
        if path not in self._files:
            return None
        kind, body = self._files[path]
        headers = Headers(
            {
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(body)),
                "Content-Security-Policy": _POLICY,
                "Permissions-Policy": "microphone=(self)",
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-cache",
                "Connection": "close",
            }
        )
        return Response(HTTPStatus.OK, "OK", headers, body)
