"""What a client asks of the session: replies, and how the turns are to be told apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pipeline.config import ListenConfig, TurnConfig
from pipeline.ports import Message, Tool

Eagerness = Literal["low", "medium", "high"]

# How much longer than configured the waits are. The hosted service's own longest waits relate the same way.
_PATIENCE: dict[Eagerness, float] = {"low": 2.0, "medium": 1.0, "high": 0.5}
_HYSTERESIS = 0.15  # between the probability that opens speech and the one that closes it


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A wanted reply. ``key`` comes back with its beginning; ``max_tokens`` 0 is the configured limit.

    ``messages`` are read instead of the history; ``speed`` is the voice's. A reply outside the conversation is not
    remembered, does not take the floor, and nobody's speech interrupts it.
    """

    key: str = ""
    spoken: bool = True
    in_conversation: bool = True
    instructions: str = ""
    messages: tuple[Message, ...] | None = None
    tools: tuple[Tool, ...] = ()
    must_call: str = ""
    max_tokens: int = 0
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """How turns are told apart; a setting of 0 is as configured, and ``silence_ms`` 0 is by the evidence.

    With ``push_to_talk`` the client commits the sound and asks for replies; all else is then without effect.
    """

    push_to_talk: bool = False
    replies: bool = True
    interrupts: bool = True
    eagerness: Eagerness = "medium"
    silence_ms: int = 0
    threshold: float = 0.0
    padding_ms: int = 0
    idle_timeout_ms: int = 0

    def turn(self, base: TurnConfig) -> TurnConfig:
        """The turn taking that comes of it."""
        patience = _PATIENCE[self.eagerness]
        return replace(
            base,
            replies=base.replies and self.replies,
            interrupts=base.interrupts and self.interrupts,
            fixed_wait_ms=self.silence_ms or base.fixed_wait_ms,
            undecided_wait_ms=round(base.undecided_wait_ms * patience),
            statement_wait_ms=round(base.statement_wait_ms * patience),
            longest_wait_ms=round(base.longest_wait_ms * patience),
            dictation_wait_ms=round(base.dictation_wait_ms * patience),
        )

    def listen(self, base: ListenConfig) -> ListenConfig:
        """The listening that comes of it; the pre-roll is never shorter than what recognition needs."""
        threshold = self.threshold or base.start_probability
        return replace(
            base,
            start_probability=threshold,
            stop_probability=min(base.stop_probability, max(0.01, threshold - _HYSTERESIS)),
            preroll_ms=max(base.preroll_ms, self.padding_ms),
        )
