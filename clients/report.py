"""A replay told to people (tables) and to programs (JSON)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clients.accuracy import WordErrors
from clients.agreement import Agreement, compare_replies
from clients.latency import PARTS
from clients.summary import CATEGORIES, Outcome, Spread, Summary, summarise
from clients.tables import titled
from pipeline.ports import InputError

FORMAT = "echoic-replay"
VERSION = 1
DRAFTS, NO_DRAFTS, REMOTE, SEQUENTIAL = "drafts", "no drafts", "server", "sequential"
NOTHING = Text("-", style="dim")
TOLERABLE_LATENESS_MS = 100


@dataclass(frozen=True, slots=True)
class Report:
    """A finished replay: the outcomes of each variant over the same recordings.

    ``offline``: what the recogniser alone makes of the whole recordings, where that was asked for.
    """

    settings: Mapping[str, Any]
    outcomes: Mapping[str, Sequence[Outcome]]
    offline: Sequence[Outcome] = ()

    def summaries(self) -> dict[str, Summary]:
        """The figures of each variant."""
        return {variant: summarise(outcomes) for variant, outcomes in self.outcomes.items()}

    def agreement(self) -> Agreement | None:
        """How replies with and without drafts compare, where both were run."""
        if not {DRAFTS, NO_DRAFTS} <= set(self.outcomes):
            return None
        return compare_replies(self.outcomes[DRAFTS], self.outcomes[NO_DRAFTS])


def speed_ups(summaries: Mapping[str, Summary]) -> dict[str, float]:
    """How many times faster than the sequential baseline each other variant is, median to median."""
    base = summaries.get(SEQUENTIAL)
    if base is None or base.voice_to_voice is None:
        return {}
    return {
        variant: round(base.voice_to_voice.p50_ms / summary.voice_to_voice.p50_ms, 2)
        for variant, summary in summaries.items()
        if variant != SEQUENTIAL and summary.voice_to_voice and summary.voice_to_voice.p50_ms > 0
    }


# --- for people ---


def render(report: Report) -> RenderableType:
    """All tables of a report."""
    summaries = report.summaries()
    words = dict(summaries)
    if report.offline:
        words["offline"] = summarise(report.offline)
    blocks = [_latency_table(summaries), _parts_table(summaries), _words_table(words), _conduct_table(summaries)]
    lines = [
        Text(f"{variant} is {ratio:.1f} times as fast as {SEQUENTIAL} (median to median)", style="bold")
        for variant, ratio in speed_ups(summaries).items()
    ]
    if agreement := report.agreement():
        lines.append(Text(str(agreement), style="bold red" if agreement.different else ""))
    lines += [*_late_lines(summaries), *_problem_lines(summaries)]
    return Group(*(Group(block, "") for block in blocks), *lines)


def _table(title: str, first: str, columns: Sequence[str], caption: str = "") -> Table:
    table = titled(title, caption)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _latency_table(summaries: Mapping[str, Summary]) -> Table:
    caption = "Seconds from the last sample of speech to the first audible one."
    table = _table("Voice to voice", "", _columns(summaries), caption)
    overall = [summary.voice_to_voice for summary in summaries.values()]
    table.add_row("all spoken recordings", *(_seconds(each) for each in overall), style="bold")
    for category, label in CATEGORIES.items():
        spreads = [summary.by_category.get(category) for summary in summaries.values()]
        if any(spreads):
            count = max(each.count for each in spreads if each)
            table.add_row(f"{label} ({count})", *(_seconds(each) for each in spreads))
    return table


def _parts_table(summaries: Mapping[str, Summary]) -> Table:
    caption = "Milliseconds. The parts of one turn add up to its whole; their percentiles need not."
    table = _table("Where the time goes", "until", _columns(summaries), caption)
    for part, label in PARTS.items():
        spreads = [summary.parts.get(part) for summary in summaries.values()]
        if any(spreads):
            table.add_row(label, *(_milliseconds(each) for each in spreads))
    table.add_section()
    whole = [summary.voice_to_voice for summary in summaries.values()]
    table.add_row("voice to voice", *(_milliseconds(each) for each in whole), style="bold")
    return table


def _words_table(summaries: Mapping[str, Summary]) -> Table:
    table = _table("Word errors", "English, one voice", list(summaries))
    table.add_row("all", *(_rate(summary.word_errors) for summary in summaries.values()), style="bold")
    for category, label in CATEGORIES.items():
        counts = [summary.word_errors_by_category.get(category) for summary in summaries.values()]
        if any(counts):
            table.add_row(label, *(_rate(each) for each in counts))
    table.add_row("words heard in silence", *(str(summary.invented_words) for summary in summaries.values()))
    return table


def _conduct_table(summaries: Mapping[str, Summary]) -> Table:
    table = _table("Conduct", "", list(summaries))
    rows: dict[str, Callable[[Summary], str]] = {
        "replies before the speaker was done": lambda s: _share(
            len(s.cut_off_in_pause) + len(s.cut_off_in_speech), s.spoken_clips
        ),
        "   of recordings with pauses": lambda s: _share(s.cut_off_with_pauses, s.clips_with_pauses),
        "   heard in the pause itself": lambda s: str(len(s.cut_off_in_pause)),
        "replies to no speech": lambda s: _share(len(s.answered_silence), s.silent_clips),
        "spoken, never answered": lambda s: _share(len(s.unanswered), s.spoken_clips),
        "gaps in playback": lambda s: f"{s.gaps} ({s.gap_ms:.0f} ms)" if s.gaps else "0",
        "tokens read before the end of speech": lambda s: _count(s, "prefilled_tokens"),
        "tokens drafted, wasted": lambda s: f"{_count(s, 'drafted_tokens')}, {_count(s, 'wasted_tokens')}",
        "drafts adopted": lambda s: _count(s, "adopted"),
        "client late by at most": lambda s: f"{s.late_ms:.0f} ms",
    }
    for label, tell in rows.items():
        table.add_row(label, *(tell(summary) for summary in summaries.values()))
    return table


def _late_lines(summaries: Mapping[str, Summary]) -> list[Text]:
    """A machine that cannot even send sound in time measures itself, not the assistant."""
    return [
        Text(
            f"{variant}: sound was sent up to {summary.late_ms:.0f} ms late, so do not trust its latency", "yellow"
        )
        for variant, summary in summaries.items()
        if summary.late_ms > TOLERABLE_LATENESS_MS
    ]


def _problem_lines(summaries: Mapping[str, Summary]) -> list[Text]:
    return [
        Text(f"{clip} ({variant}): {'; '.join(problems)}", style="yellow")
        for variant, summary in summaries.items()
        for clip, problems in summary.problems.items()
    ]


def _columns(summaries: Mapping[str, Summary]) -> list[str]:
    return [f"{variant}\n{'p50':>5} {'p95':>5}" for variant in summaries]


def _seconds(each: Spread | None) -> str | Text:
    return f"{each.p50_ms / 1000:5.2f} {each.p95_ms / 1000:5.2f}" if each else NOTHING


def _milliseconds(each: Spread | None) -> str | Text:
    return f"{each.p50_ms:5.0f} {each.p95_ms:5.0f}" if each else NOTHING


def _rate(counts: WordErrors | None) -> str | Text:
    return f"{counts.rate:.1%}" if counts and counts.rate is not None else NOTHING


def _share(some: int, of_all: int) -> str:
    return f"{some} of {of_all}"


def _count(summary: Summary, name: str) -> str:
    return str(summary.work.get(name, 0)) if summary.work else "-"


# --- for programs ---


def as_json(report: Report) -> dict[str, Any]:
    """The whole report as plain values; ``format`` and ``version`` say how to read it."""
    summaries = report.summaries()
    agreement = report.agreement()
    return {
        "format": FORMAT,
        "version": VERSION,
        "settings": dict(report.settings),
        "speed_up_over_sequential": speed_ups(summaries),
        "replies_with_and_without_drafts": asdict(agreement) if agreement else None,
        "variants": {
            variant: {
                "summary": asdict(summaries[variant]),
                "clips": [_clip_as_json(outcome) for outcome in outcomes],
            }
            for variant, outcomes in report.outcomes.items()
        },
        "offline": {each.recording.name: each.result.heard for each in report.offline},
    }


def write_json(report: Report, path: Path) -> None:
    """Write the report; raises InputError where that is impossible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot write the report: {error.strerror}") from error


def read_json(path: Path) -> dict[str, Any]:
    """A report that was written before; raises InputError when it is none, or of another version."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a replay report: {error}") from error
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise InputError(f"{path}: not a replay report; write one with: echoic replay ... --json FILE")
    if tree.get("version") != VERSION:
        raise InputError(f"{path}: a replay report of version {tree.get('version')}; this program reads {VERSION}")
    return tree


def _clip_as_json(outcome: Outcome) -> dict[str, Any]:
    recording, result = outcome.recording, outcome.result
    return {
        "clip": recording.name,
        "category": list(recording.category),
        "language": recording.language,
        "reference": recording.transcript,
        "speech_end_s": recording.speech_end_s,
        **asdict(result),
    }
