"""What Echoic tells beyond the Realtime protocol, to those who ask for it in the query (``?echoic=words``).

Stock clients never see any of it: some of them end their session over an unknown event.
"""

from __future__ import annotations

import json
from typing import Any

from pipeline.events import ReplyWord, SessionEvent, UserTail
from server.wire import new_id


def extra_event(kind: str, **fields: Any) -> str:
    """One event that only Echoic has, as JSON."""
    return json.dumps({"type": f"echoic.{kind}", "event_id": new_id("event"), **fields})


def word_events(told: SessionEvent) -> list[str]:
    """``echoic.tail``, the user's words that may still change, and ``echoic.word``, the reply's as they sound."""
    match told:
        case UserTail(_, text):
            return [extra_event("tail", text=text)]
        case ReplyWord(_, text, start_ms, end_ms):
            return [extra_event("word", text=text, start_ms=round(start_ms), end_ms=round(end_ms))]
        case _:
            return []
