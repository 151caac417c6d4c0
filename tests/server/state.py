"""A server's state without a server."""

from __future__ import annotations

from typing import Any

from server.health import ServerState


def server_state(**differs: Any) -> ServerState:
    """An idle server that was never tested, but for what differs."""
    usual: dict[str, Any] = {
        "models": {"asr": "ear", "llm": "mind", "voice": "heart"},
        "sessions": 0,
        "max_sessions": 8,
        "speech_connections": 0,
        "full": False,
        "stopping": False,
        "share": 0.0,
        "backlogs": (),
        "self_test": None,
        "self_test_age_s": 0.0,
    }
    return ServerState(**{**usual, **differs})
