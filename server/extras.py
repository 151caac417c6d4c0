"""What Echoic tells beyond the Realtime protocol, to those who ask for it in the query (``?echoic=words``).

Stock clients never see any of it: some of them end their session over an unknown event.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from pipeline.events import MemoryHeld, ReplyWord, SessionEvent, UserTail
from server.wire import new_id


def extra_event(kind: str, **fields: Any) -> str:
    """One event that only Echoic has, as JSON."""
    return json.dumps({"type": f"echoic.{kind}", "event_id": new_id("event"), **fields})


def extra_events(told: SessionEvent, asked: Collection[str]) -> list[str]:
    """What those who asked for it are told of a session event.

    ``words``: ``echoic.tail``, the user's words that may still change, and ``echoic.word``, the reply's as they
    sound. ``memory``: ``echoic.memory``, what the echoic memory holds, without a word of it.
    """
    match told:
        case UserTail(_, text) if "words" in asked:
            return [extra_event("tail", text=text)]
        case ReplyWord(_, text, start_ms, end_ms) if "words" in asked:
            return [extra_event("word", text=text, start_ms=round(start_ms), end_ms=round(end_ms))]
        case MemoryHeld(weights, left_s, fading) if "memory" in asked:
            rounded = [round(weight, 3) for weight in weights]
            return [extra_event("memory", weights=rounded, left_s=round(left_s, 3), fading=fading)]
        case _:
            return []
