"""The Realtime session object: complete from the first event on, merged with what clients want, read out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pipeline.requests import Eagerness, ReplyRequest, TurnDetection
from pipeline.speech_wire import SPEEDS
from server.given import given_tools, must_call

SESSION_LIFE_S = 24 * 3600
SHORTEST_SILENCE_MS, LONGEST_SILENCE_MS = 100, 10_000
SHORTEST_IDLE_MS = 1_000
MOST_OUTPUT_TOKENS = 4_096

_SERVER_VAD: dict[str, Any] = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_SEMANTIC_VAD: dict[str, Any] = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}
_DETECTIONS = {"server_vad": _SERVER_VAD, "semantic_vad": _SEMANTIC_VAD}
_EAGERNESS: dict[str, Eagerness] = {"low": "low", "medium": "medium", "high": "high", "auto": "medium"}
_OF_TRANSCRIPTION_MODEL = frozenset({"model", "language", "prompt"})  # another key ends some clients' sessions
_PCM: dict[str, Any] = {"type": "audio/pcm", "rate": 24_000}
_FORMATS = ("audio/pcm", "audio/pcmu", "audio/pcma")
_MERGED = frozenset({"audio", "input", "output"})
_CAN_BE_OFF = frozenset({"turn_detection", "transcription", "noise_reduction", "tracing", "prompt", "include"})
_FIXED = frozenset({"id", "object", "type", "expires_at"})
_OF_TRANSCRIPTION = ("type", "object", "id", "expires_at", "include")


def new_session(
    session_id: str, model: str, instructions: str, voice: str, lasts_s: float = SESSION_LIFE_S
) -> dict[str, Any]:
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
        "expires_at": int(time.time() + lasts_s),
        "include": None,
        "audio": {
            "input": {
                "format": dict(_PCM),
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": dict(_SERVER_VAD),
            },
            "output": {"format": dict(_PCM), "voice": voice, "speed": 1.0},
        },
    }


def merged(session: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The session with an update: absent means unchanged, objects below ``audio`` are replaced whole.

    Keys and kinds that the session does not know are ignored: an error would end some clients' sessions for good.
    """
    result = dict(session)
    for key, value in wanted.items():
        known = key in session and key not in _FIXED
        if known and (value is not None or key in _CAN_BE_OFF):
            result[key] = setting(key, session[key], value)
    if wanted.get("type") == "transcription":
        result |= {"type": "transcription", "object": "realtime.transcription_session"}
    return result


def shown(session: dict[str, Any]) -> dict[str, Any]:
    """The session as the client is told of it: one that only transcribes has no output."""
    if session["type"] == "realtime":
        return session
    return {
        **{key: session[key] for key in _OF_TRANSCRIPTION},
        "audio": {"input": session["audio"]["input"]},
    }


def detection_of(session: Mapping[str, Any]) -> TurnDetection:
    """How the session wants turns to be told apart. The defaults of ``server_vad`` leave it to the evidence."""
    wanted = session["audio"]["input"]["turn_detection"]
    if wanted is None:
        return TurnDetection(push_to_talk=True)
    replies = session["type"] == "realtime" and wanted["create_response"] is not False
    interrupts = wanted["interrupt_response"] is not False
    if wanted["type"] == "semantic_vad":
        eagerness = _EAGERNESS.get(wanted["eagerness"], "medium")
        return TurnDetection(replies=replies, interrupts=interrupts, eagerness=eagerness)
    idle_ms = wanted["idle_timeout_ms"]
    return TurnDetection(
        replies=replies,
        interrupts=interrupts,
        silence_ms=_bounded(_own(wanted, "silence_duration_ms"), SHORTEST_SILENCE_MS, LONGEST_SILENCE_MS),
        threshold=min(0.95, max(0.0, _own(wanted, "threshold"))),
        padding_ms=_bounded(_own(wanted, "prefix_padding_ms"), 0, LONGEST_SILENCE_MS),
        idle_timeout_ms=max(SHORTEST_IDLE_MS, int(idle_ms)) if idle_ms else 0,
    )


def defaults_of(session: Mapping[str, Any]) -> ReplyRequest:
    """How the session's turns are answered. Raises ProtocolError for tools that are none."""
    tools = given_tools(session["tools"] or [], "session.tools")
    choice = session["tool_choice"]
    return ReplyRequest(
        spoken=is_spoken(session["output_modalities"]),
        tools=() if choice == "none" else tools,
        must_call=must_call(choice, tools),
        max_tokens=token_limit(session["max_output_tokens"]),
        speed=session["audio"]["output"]["speed"],
    )


def is_spoken(modalities: object) -> bool:
    """Whether an ``output_modalities`` asks for sound; with both it does, and the words come along."""
    return not isinstance(modalities, list) or "audio" in modalities or "text" not in modalities


def token_limit(wanted: object) -> int:
    """A ``max_output_tokens`` as a number; 0 for "inf"."""
    return _bounded(wanted, 1, MOST_OUTPUT_TOKENS) if isinstance(wanted, int) else 0


def setting(key: str, current: Any, value: Any) -> Any:
    """What a setting becomes when a client wants it to be ``value``."""
    if key in _MERGED:
        return merged(current, value) if isinstance(value, dict) else current
    if key == "voice":
        return current  # there is one, whatever a client calls it
    if key == "speed":
        return max(SPEEDS[0], min(SPEEDS[1], value)) if isinstance(value, int | float) else current
    if key == "output_modalities":
        return ["audio"] if is_spoken(value) else ["text"]
    if not isinstance(value, dict):
        return value
    if key == "turn_detection":
        defaults = _DETECTIONS.get(str(value.get("type", "server_vad")))
        return current if defaults is None else {**defaults, **_without_null(value)}
    if key == "transcription":
        return {name: value[name] for name in value if name in _OF_TRANSCRIPTION_MODEL}
    if key == "format":
        kind = value.get("type")
        return dict(_PCM) if kind not in _FORMATS or kind == "audio/pcm" else {"type": kind}
    return value


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in value.items() if one is not None}


def _own(wanted: Mapping[str, Any], key: str) -> float:
    """The client's own value; 0 where it is the default, which leaves the matter to the server."""
    value: float = wanted[key]
    return 0 if value == _SERVER_VAD[key] else value


def _bounded(value: float, least: int, most: int) -> int:
    return int(min(most, max(least, value))) if value else 0
