"""Reports for people and for programs, and one held against another."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from clients.baseline import compare, render_changes
from clients.latency import PARTS
from clients.report import Report, as_json, read_json, render, speed_ups, write_json
from pipeline.ports import InputError
from tests.clients.outcomes import answered, unanswered


def shown(what: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(what)
    return console.file.getvalue()  # type: ignore[attr-defined]


REPORT = Report(
    {"pace": 1.0},
    {
        "drafts": [answered(400, "x"), answered(500, "y"), unanswered("z", problem="it broke")],
        "sequential": [answered(3000, "x"), answered(3300, "y"), unanswered("z")],
    },
    offline=[answered(name="x", heard="a b c"), answered(name="y")],
)


def test_a_report_survives_being_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "r.json"
    write_json(REPORT, path)
    assert read_json(path) == json.loads(json.dumps(as_json(REPORT)))


def test_json_holds_every_clip_and_says_how_to_read_it() -> None:
    tree = as_json(REPORT)
    assert (tree["format"], tree["version"], tree["settings"]) == ("echoic-replay", 1, {"pace": 1.0})
    clip = tree["variants"]["drafts"]["clips"][0]
    assert (clip["clip"], clip["reference"], clip["turns"][0]["voice_to_voice_ms"]) == ("x", "a b c d", 400)
    assert tree["offline"] == {"x": "a b c", "y": "a b c d"}


@pytest.mark.parametrize(
    "text", ["no json", "[]", '{"format": "other"}', '{"format": "echoic-replay", "version": 9}']
)
def test_what_is_no_report_of_this_version_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError, match=r"r\.json"):
        read_json(tmp_path / "r.json")


def test_a_report_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the report"):
        write_json(REPORT, tmp_path)


def test_the_ratio_to_the_sequential_baseline_is_one_of_medians() -> None:
    assert speed_ups(REPORT.summaries()) == {"drafts": 7.0}


def test_the_tables_tell_latency_parts_words_and_conduct() -> None:
    text = shown(render(REPORT))
    assert "drafts is 7.0 times as fast as sequential" in text
    for line in (
        "Voice to voice",
        "finish the transcript",
        "Word errors",
        "offline",
        "12.5%",
        "spoken, never answered",
    ):
        assert line in text
    assert "z (drafts): it broke" in text


def test_latency_measured_on_a_machine_that_was_too_busy_is_not_to_be_trusted() -> None:
    late = answered()
    late = replace(late, result=replace(late.result, late_ms=250.0))
    assert "drafts: sound was sent up to 250 ms late" in shown(render(Report({}, {"drafts": [late]})))
    assert "late, so" not in shown(render(REPORT))


def test_a_report_of_nothing_that_can_be_timed_is_still_shown() -> None:
    assert "0 of 1" in shown(render(Report({}, {"server": [unanswered(transcript="")]})))


def changed(now_ms: int, before_ms: int = 400) -> tuple[bool, str]:
    old = json.loads(json.dumps(as_json(Report({}, {"drafts": [answered(before_ms)]}))))
    changes = compare(old, Report({}, {"drafts": [answered(now_ms)], "new": [answered()]}).summaries())
    return any(change.exceeds(1.25) for change in changes), shown(render_changes(changes, 1.25))


def test_a_replay_within_the_ratio_of_its_baseline_passes() -> None:
    slower, table = changed(now_ms=500)
    assert not slower
    assert "1.25" in table


def test_a_replay_past_the_ratio_of_its_baseline_fails() -> None:
    assert changed(now_ms=501)[0]


def test_every_part_that_both_have_is_compared() -> None:
    table = changed(now_ms=200)[1]
    assert "0.50" in table
    assert all(PARTS[part] in table for part in ("asr_final", "first_audible"))


def test_replays_without_a_variant_in_common_cannot_be_compared() -> None:
    old = as_json(Report({}, {"server": [answered()]}))
    with pytest.raises(InputError, match="no timed variant in common"):
        compare(old, Report({}, {"drafts": [answered()]}).summaries())
