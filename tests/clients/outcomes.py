"""Outcomes of replays that never ran, for reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clients.accuracy import CutOff
from clients.latency import AUDIBLE, RECEIVED
from clients.measure import ClipResult, TurnResult
from clients.recordings import Recording
from clients.summary import Outcome


def recording(
    name: str = "clip", transcript: str | None = "a b c d", category: str = "a", **facts: Any
) -> Recording:
    silence = np.zeros(1_600, np.float32)
    return Recording(Path(f"{name}.wav"), silence, 16_000, transcript, category=tuple(category), **facts)


def turn(total_ms: int | None = 400, **more: Any) -> TurnResult:
    """An answer after so many milliseconds; None for one that is not timed."""
    parts = {} if total_ms is None else {"asr_final": total_ms - 30, RECEIVED: 10, AUDIBLE: 20}
    return TurnResult("a b c d", "Yes.", first_heard_s=2.0, voice_to_voice_ms=total_ms, parts_ms=parts, **more)


def answered(total_ms: int = 400, name: str = "clip", heard: str = "a b c d", category: str = "a") -> Outcome:
    return Outcome(recording(name, category=category), ClipResult(heard, (turn(total_ms),)))


def cut_off(kind: CutOff, name: str = "clip", pauses: tuple[tuple[float, float], ...] = ()) -> Outcome:
    turns = (turn(None, cut_off=kind), turn(500))
    return Outcome(recording(name, pauses=pauses), ClipResult("a b c d", turns))


def unanswered(name: str = "clip", transcript: str | None = "a b c d", problem: str = "") -> Outcome:
    return Outcome(recording(name, transcript), ClipResult("", problems=(problem,) if problem else ()))
