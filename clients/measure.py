"""From what a client heard to figures: when the reply became audible, where the time went, what broke in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clients.accuracy import CutOff, classify_cut_off
from clients.hearing import Hearing, Playback, Reply, play_back
from clients.latency import RECEIVED, break_down
from clients.recordings import Recording
from clients.uplink import Uplink


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn and its reply. Seconds count from the recording's start, latency from its last speech sample."""

    heard: str
    reply: str
    status: str = "completed"
    first_heard_s: float | None = None
    cut_off: CutOff = CutOff.NONE
    voice_to_voice_ms: int | None = None
    parts_ms: Mapping[str, int] = field(default_factory=dict)
    gaps_ms: tuple[float, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClipResult:
    """What came of one recording. ``late_ms``: how late the client's own blocks were at worst."""

    heard: str
    turns: tuple[TurnResult, ...] = ()
    problems: tuple[str, ...] = ()
    late_ms: float = 0.0

    @property
    def replied(self) -> bool:
        """Whether anything at all was heard in reply."""
        return any(turn.first_heard_s is not None for turn in self.turns)

    @property
    def answer(self) -> TurnResult | None:
        """The reply to the whole recording: the first one that is timed from the end of its speech."""
        return next((turn for turn in self.turns if turn.voice_to_voice_ms is not None), None)

    @property
    def cut_off(self) -> CutOff:
        """How the first reply that broke in did so, if any did."""
        return next((turn.cut_off for turn in self.turns if turn.cut_off is not CutOff.NONE), CutOff.NONE)


def measure_turns(
    hearing: Hearing, uplink: Uplink, recording: Recording, begins_s: float
) -> tuple[TurnResult, ...]:
    """Every turn of a session into which ``recording`` was spoken from the position ``begins_s`` on.

    Turns with a reply come first, then those without.
    The first reply heard after the recording's speech is timed from its known last sample. Where that is unknown,
    replies are timed from what the server took for the last sample of their turn.
    """
    turns = [_measure(reply, uplink, recording, begins_s) for reply in hearing.replies]
    if recording.speech_end_s is not None:
        turns = _time_first_only(turns)
    unanswered = [
        TurnResult(each.get("transcript", ""), "", each["status"], record=each) for each in hearing.unanswered
    ]
    return (*turns, *unanswered)


def _measure(reply: Reply, uplink: Uplink, recording: Recording, begins_s: float) -> TurnResult:
    record = reply.record or {}
    turn = TurnResult(record.get("transcript", reply.heard), reply.text, reply.status, record=record)
    playback = play_back(reply.pieces)
    if playback is None or playback.audible_at is None:
        return turn
    heard_s = uplink.position_at(playback.audible_at) - begins_s
    turn = replace(turn, first_heard_s=round(heard_s, 3), gaps_ms=playback.gaps_ms)
    end_s = recording.speech_end_s
    if end_s is None and "speech_end_ms" in record:
        end_s = record["speech_end_ms"] / 1000 - begins_s
    if end_s is None or recording.silent:
        return turn
    if (cut_off := classify_cut_off(heard_s, end_s, recording.pauses)) is not CutOff.NONE:
        return replace(turn, cut_off=cut_off)
    total_ms, parts = _time(playback, record, uplink, begins_s + end_s)
    return replace(turn, voice_to_voice_ms=total_ms, parts_ms=parts)


def _time(
    playback: Playback, record: Mapping[str, Any], uplink: Uplink, end_position_s: float
) -> tuple[int, dict[str, int]]:
    """Voice to voice and its parts, from the true last sample of speech at this position of the session.

    The server's marks count from when *its* last speech sample arrived, which this client knows to the block.
    """
    spoken_at = uplink.spoken_at(end_position_s)
    arrived_ms = (uplink.sent_at(record.get("speech_end_ms", 0.0) / 1000) - spoken_at) * 1000
    marks = {name: arrived_ms + after_ms for name, after_ms in record.get("marks_ms", {}).items()}
    marks[RECEIVED] = (playback.received_at - spoken_at) * 1000
    parts = break_down(marks, ((playback.audible_at or playback.received_at) - spoken_at) * 1000)
    return sum(parts.values()), parts


def _time_first_only(turns: Sequence[TurnResult]) -> list[TurnResult]:
    """Only one reply can answer the end of a recording: later ones keep their text and lose their latency."""
    timed = next((index for index, turn in enumerate(turns) if turn.voice_to_voice_ms is not None), len(turns))
    later = [replace(turn, voice_to_voice_ms=None, parts_ms={}) for turn in turns[timed + 1 :]]
    return [*turns[: timed + 1], *later]
