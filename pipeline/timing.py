"""Clocks, and the one latency record a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Clock = Callable[[], float]


def loop_clock() -> float:
    """Seconds on the running loop's clock: the system's in production, a virtual one in tests."""
    return asyncio.get_running_loop().time()


class Mark(StrEnum):
    """The moments of a turn that the record keeps, in the order of the work (not of time)."""

    PAUSE_SEEN = "pause_seen"
    ASR_FINAL = "asr_final"
    FIRST_TOKEN = "first_token"
    FIRST_PHRASE = "first_phrase"
    FIRST_AUDIO_MADE = "first_audio_made"
    TURN_END_DECIDED = "turn_end_decided"
    FIRST_AUDIO_SENT = "first_audio_sent"


class EndedBy(StrEnum):
    """Which clock or whose word ended the user's turn."""

    EVIDENCE = "evidence"
    LONGEST_WAIT = "longest_wait"
    LONGEST_TURN = "longest_turn"
    NO_AUDIO = "no_audio"
    CLIENT = "client"


@dataclass(slots=True)
class TurnRecord:
    """What one turn cost and where its time went.

    Times are on the session's clock; ``speech_end_at`` is when the last speech sample arrived, and
    ``speech_end`` that sample's position at 16 kHz. Marks can be set again: the last one counts, so a reopened
    turn tells of the work that was heard.
    """

    turn: int
    speech_end: int = 0
    speech_end_at: float = 0.0
    ended_by: EndedBy | None = None
    status: str = "completed"
    typed: bool = False
    transcript: str = ""
    reply: str = ""
    marks: dict[Mark, float] = field(default_factory=dict)
    prefilled_tokens: int = 0
    cropped_tokens: int = 0
    drafts: int = 0
    drafted_tokens: int = 0
    wasted_tokens: int = 0
    adopted: bool = False
    reopens: int = 0
    pauses: int = 0  # of the reply, while somebody seemed to speak over it
    reply_tokens: int = 0
    audio_s: float = 0.0
    asr_lag_ms: float = 0.0
    state_entropy_bits: float | None = None  # of the echoic memory the reply was given; None: of none
    state_z_score: float | None = None
    states_dropped: int = 0  # so far in the session, because they were sick

    def mark(self, mark: Mark, now: float) -> None:
        """Note that the moment is now."""
        self.marks[mark] = now

    def parts(self) -> list[tuple[str, float]]:
        """Milliseconds from each moment to the next in order of time; they add up to the last one."""
        parts, before = [], self.speech_end_at
        for mark, at in sorted(self.marks.items(), key=lambda item: item[1]):
            parts.append((mark.value, (at - before) * 1000))
            before = at
        return parts

    def voice_to_voice_ms(self) -> float | None:
        """From the last speech sample to the first sound of the reply as it leaves.

        None where nothing sounded, or the client said when to reply: see ``response_ms``.
        """
        return None if self.typed else self._until_first_audio_ms(self.speech_end_at)

    def response_ms(self) -> float | None:
        """From a client's request to the reply's first sound; None where it did not ask, or nothing sounded."""
        asked_at = self.marks.get(Mark.TURN_END_DECIDED, self.speech_end_at)
        return self._until_first_audio_ms(asked_at) if self.typed else None

    def _until_first_audio_ms(self, begin: float) -> float | None:
        sent_at = self.marks.get(Mark.FIRST_AUDIO_SENT)
        return None if sent_at is None else (sent_at - begin) * 1000

    def as_dict(self) -> dict[str, Any]:
        """The record for the wire: what was said, and the figures."""
        return {**self.figures(), "transcript": self.transcript, "reply": self.reply}

    def figures(self) -> dict[str, Any]:
        """All but what was said; marks in milliseconds after the last speech sample arrived."""
        return {
            "turn": self.turn,
            "ended_by": self.ended_by.value if self.ended_by else None,
            "status": self.status,
            "speech_end_ms": self.speech_end / 16,
            "marks_ms": {mark.value: (at - self.speech_end_at) * 1000 for mark, at in sorted(self.marks.items())},
            "prefilled_tokens": self.prefilled_tokens,
            "cropped_tokens": self.cropped_tokens,
            "drafts": self.drafts,
            "drafted_tokens": self.drafted_tokens,
            "wasted_tokens": self.wasted_tokens,
            "adopted": self.adopted,
            "reopens": self.reopens,
            "pauses": self.pauses,
            "reply_tokens": self.reply_tokens,
            "audio_s": self.audio_s,
            "asr_lag_ms": self.asr_lag_ms,
            "state_entropy_bits": self.state_entropy_bits,
            "state_z_score": self.state_z_score,
            "states_dropped": self.states_dropped,
        }
