"""The log as JSON, a line each: one for every turn, and none of them with what was said."""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any, TextIO

from pipeline.timing import TurnRecord

TURNS = "echoic.turns"  # the logger to listen to; nothing is made of a turn while nobody does


def log_turn(session_id: str, record: TurnRecord) -> None:
    """One line at INFO, whose figures are in the log record's ``figures``."""
    log = logging.getLogger(TURNS)
    if log.isEnabledFor(logging.INFO):
        log.info("turn %d of %s", record.turn, session_id, extra={"figures": turn_figures(session_id, record)})


def log_as_json(stream: TextIO) -> None:
    """From now on the process logs to this stream: every turn, and what it warns of."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.getLogger().addHandler(handler)
    logging.getLogger(TURNS).setLevel(logging.INFO)


def turn_figures(session_id: str, record: TurnRecord) -> dict[str, Any]:
    """What a turn cost and where its time went, in the order people read it."""
    figures = record.figures()
    del figures["marks_ms"]
    return {
        "session": session_id,
        **figures,
        "voice_to_voice_ms": record.voice_to_voice_ms(),
        "response_ms": record.response_ms(),
        "parts_ms": {} if record.typed else dict(record.parts()),
    }


class JsonLines(logging.Formatter):
    """Every log record as one JSON object: ``time`` (UTC), ``level``, ``logger``, ``message``, and its figures."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_plain(getattr(record, "figures", {})),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _plain(value: Any) -> Any:
    """The value for people: three decimals, and null for what is no number (a sick state's health)."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else None
    return value
