"""What a whole replay comes to: one Summary per way of running it, made from its clips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clients.accuracy import CutOff, WordErrors, total_errors, word_errors
from clients.latency import PARTS, percentile
from clients.measure import ClipResult, TurnResult
from clients.recordings import Recording

CATEGORIES: Mapping[str, str] = {
    "a": "commands and questions",
    "b": "read sentences",
    "c": "pauses in mid-sentence",
    "d": "accents, children, age",
    "e": "telephone",
    "f": "noise and music",
    "g": "no speech",
    "h": "not English",
    "i": "two voices at once",
}
WORK = ("prefilled_tokens", "cropped_tokens", "drafts", "drafted_tokens", "wasted_tokens", "reopens", "adopted")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One recording and what came of it under one variant."""

    recording: Recording
    result: ClipResult


@dataclass(frozen=True, slots=True)
class Spread:
    """How a latency is distributed, in milliseconds."""

    count: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one variant. Keys of the mappings are parts (latency.PARTS) and categories."""

    clips: int
    voice_to_voice: Spread | None
    by_category: Mapping[str, Spread]
    parts: Mapping[str, Spread]
    word_errors: WordErrors
    word_errors_by_category: Mapping[str, WordErrors]
    spoken_clips: int
    unanswered: tuple[str, ...]
    cut_off_in_pause: tuple[str, ...]
    cut_off_in_speech: tuple[str, ...]
    clips_with_pauses: int
    cut_off_with_pauses: int
    silent_clips: int
    answered_silence: tuple[str, ...]
    invented_words: int
    gaps: int
    gap_ms: float
    problems: Mapping[str, tuple[str, ...]]
    work: Mapping[str, int] = field(default_factory=dict)
    late_ms: float = 0.0


def summarise(outcomes: Sequence[Outcome]) -> Summary:
    """All figures of one variant's outcomes."""
    spoken = [outcome for outcome in outcomes if not outcome.recording.silent]
    silent = [outcome for outcome in outcomes if outcome.recording.silent]
    paused = [outcome for outcome in spoken if outcome.recording.pauses]
    answers = [answer for outcome in spoken if (answer := outcome.result.answer)]
    turns = [turn for outcome in outcomes for turn in outcome.result.turns]
    return Summary(
        clips=len(outcomes),
        voice_to_voice=spread(_latencies(answers)),
        by_category=_latency_by_category(spoken),
        parts=_spread_parts(answers),
        word_errors=total_errors(_errors(outcome) for outcome in spoken if outcome.recording.scored),
        word_errors_by_category=_errors_by_category(spoken),
        spoken_clips=len(spoken),
        unanswered=_names(outcome for outcome in spoken if not outcome.result.replied),
        cut_off_in_pause=_names(outcome for outcome in spoken if outcome.result.cut_off is CutOff.IN_PAUSE),
        cut_off_in_speech=_names(outcome for outcome in spoken if outcome.result.cut_off is CutOff.IN_SPEECH),
        clips_with_pauses=len(paused),
        cut_off_with_pauses=sum(outcome.result.cut_off is not CutOff.NONE for outcome in paused),
        silent_clips=len(silent),
        answered_silence=_names(outcome for outcome in silent if outcome.result.replied),
        invented_words=sum(_errors(outcome).errors for outcome in silent),
        gaps=sum(len(turn.gaps_ms) for turn in turns),
        gap_ms=round(sum(sum(turn.gaps_ms) for turn in turns), 1),
        problems={
            outcome.recording.name: outcome.result.problems for outcome in outcomes if outcome.result.problems
        },
        work=_add_up_work(turns),
        late_ms=max((outcome.result.late_ms for outcome in outcomes), default=0.0),
    )


def spread(values: Iterable[float]) -> Spread | None:
    """The median and the 95th percentile; None of nothing."""
    ranked = sorted(values)
    middle, tail = percentile(ranked, 50), percentile(ranked, 95)
    return None if middle is None or tail is None else Spread(len(ranked), round(middle, 1), round(tail, 1))


def _latencies(answers: Iterable[TurnResult]) -> list[float]:
    return [answer.voice_to_voice_ms for answer in answers if answer.voice_to_voice_ms is not None]


def _latency_by_category(spoken: Sequence[Outcome]) -> dict[str, Spread]:
    found = {}
    for category, members in _by_category(spoken).items():
        if latency := spread(_latencies(answer for member in members if (answer := member.result.answer))):
            found[category] = latency
    return found


def _spread_parts(answers: Sequence[TurnResult]) -> dict[str, Spread]:
    """A part that a turn does not have took no time in it; one that no turn has is left out."""
    found = {}
    for name in PARTS:
        if any(name in answer.parts_ms for answer in answers):
            latency = spread(answer.parts_ms.get(name, 0) for answer in answers)
            assert latency is not None  # there is at least one answer
            found[name] = latency
    return found


def _errors_by_category(spoken: Sequence[Outcome]) -> dict[str, WordErrors]:
    scored = [outcome for outcome in spoken if outcome.recording.scored]
    return {
        category: total_errors(_errors(member) for member in members)
        for category, members in _by_category(scored).items()
    }


def _by_category(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    return {
        category: members
        for category in CATEGORIES
        if (members := [outcome for outcome in outcomes if category in outcome.recording.category])
    }


def _errors(outcome: Outcome) -> WordErrors:
    return word_errors(outcome.recording.transcript or "", outcome.result.heard)


def _names(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    return tuple(outcome.recording.name for outcome in outcomes)


def _add_up_work(turns: Iterable[TurnResult]) -> dict[str, int]:
    work: Counter[str] = Counter()
    for turn in turns:
        work.update({name: int(turn.record[name]) for name in WORK if name in turn.record})
    return dict(work)
