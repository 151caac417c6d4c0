"""Health: one server at one moment, and what of it a load balancer or a stranger is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.channel import Backlog
from pipeline.config import Config
from server.self_test import Outcome

Status = Literal["ok", "full", "failing", "stopping"]


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server at one moment. ``share``: how much of the cores' time the models took lately.

    ``self_test`` is the last one, None before the first, and ``self_test_age_s`` how long ago it ended.
    """

    models: Mapping[str, str]
    sessions: int
    max_sessions: int
    speech_connections: int
    full: bool
    stopping: bool
    share: float
    backlogs: tuple[Backlog, ...]
    self_test: Outcome | None
    self_test_age_s: float

    @property
    def status(self) -> Status:
        """In a word; of several the one that lasts longest."""
        if self.stopping:
            return "stopping"
        if self.self_test is not None and not self.self_test.passed:
            return "failing"
        return "full" if self.full else "ok"

    @property
    def alive(self) -> bool:
        """Whether it works, for those it has; a server that is not is worth a restart."""
        return self.status != "failing"

    @property
    def ready(self) -> bool:
        """Whether it takes one more conversation."""
        return self.status == "ok"

    def report(self) -> dict[str, Any]:
        """The details, for operators. No words, no keys, no paths."""
        return {
            "status": self.status,
            "models": dict(self.models),
            "sessions": self.sessions,
            "max_sessions": self.max_sessions,
            "full": self.full,
            "stopping": self.stopping,
            "self_test": self._self_test_report(),
        }

    def _self_test_report(self) -> dict[str, Any] | None:
        if self.self_test is None:
            return None
        told: dict[str, Any] = {"passed": self.self_test.passed, "age_s": round(self.self_test_age_s, 1)}
        if self.self_test.passed:
            return {**told, "answered_in_ms": round(self.self_test.answered_in_ms)}
        return {**told, "failed_at": self.self_test.failed_at}


def model_names(config: Config) -> dict[str, str]:
    """What the models are called: neither the folder they are in nor the address, which may hold a password."""
    chosen = {"asr": config.asr.model, "llm": config.llm.model, "voice": config.speech.voice}
    return {role: re.split(r"[#/\\]", name.rstrip("/\\"))[-1] for role, name in chosen.items()}
