"""The Realtime session object: complete from the first event on, and merged with what the client wants of it."""

from __future__ import annotations

import time
from typing import Any

SESSION_LIFE_S = 24 * 3600
_TURN_DETECTION: dict[str, Any] = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_PCM: dict[str, Any] = {"type": "audio/pcm", "rate": 24_000}
_MERGED = frozenset({"audio", "input", "output"})
_CAN_BE_OFF = frozenset({"turn_detection", "transcription", "noise_reduction", "tracing", "prompt", "include"})
_FIXED = frozenset({"id", "object", "type", "expires_at"})


def new_session(session_id: str, model: str, instructions: str, voice: str) -> dict[str, Any]:
    """The whole session with its defaults."""
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": session_id,
        "model": model,
        "output_modalities": ["audio"],
        "instructions": instructions,
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "expires_at": int(time.time()) + SESSION_LIFE_S,
        "include": None,
        "audio": {
            "input": {
                "format": dict(_PCM),
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": dict(_TURN_DETECTION),
            },
            "output": {"format": dict(_PCM), "voice": voice, "speed": 1.0},
        },
    }


def merged(session: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The session with an update: absent means unchanged, objects below ``audio`` are replaced whole.

    Keys that the session does not know are ignored: an error would end some clients' sessions for good.
    """
    result = dict(session)
    for key, value in wanted.items():
        if key not in session or key in _FIXED or (value is None and key not in _CAN_BE_OFF):
            continue
        if key in _MERGED:
            result[key] = merged(session[key], value) if isinstance(value, dict) else session[key]
        elif key == "turn_detection" and isinstance(value, dict):
            result[key] = {**_TURN_DETECTION, **value}
        elif key == "format" and isinstance(value, dict):
            result[key] = value if value.get("type") in ("audio/pcmu", "audio/pcma") else dict(_PCM)
        else:
            result[key] = value
    return result
