"""``echoic replay`` as a command: against a server on a real socket, down to its exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

from clients.cli import main
from tests.clients.scripted import Script, server_in_thread, tone

FAST = ["--pace", "20"]


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """Two recordings with a manifest: one spoken, one silent."""
    folder = tmp_path / "clips"
    folder.mkdir()
    soundfile.write(folder / "ask.wav", np.concatenate([tone(0.4), np.zeros(4_800, np.float32)]), 24_000)
    entry = {
        "file": "ask.wav",
        "transcript": "what is the capital of france",
        "category": ["a"],
        "speech_end_s": 0.4,
    }
    (folder / "manifest.jsonl").write_text(json.dumps(entry))
    return folder


def replay(clips: Path, script: Script, *options: str) -> int:
    with server_in_thread(script) as url:
        return main(["replay", str(clips), "--url", url, *FAST, *options])


def baseline(path: Path, p50_ms: float) -> str:
    """An earlier report of the same server."""
    spread = {"count": 1, "p50_ms": p50_ms, "p95_ms": p50_ms}
    summary = {"voice_to_voice": spread, "parts": {"asr_final": spread}}
    path.write_text(
        json.dumps({"format": "echoic-replay", "version": 1, "variants": {"server": {"summary": summary}}})
    )
    return str(path)


def test_a_replay_that_goes_well_exits_with_0_and_tells_what_was_heard(
    clips: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(clips, Script(reply="Paris.")) == 0
    told = capsys.readouterr().out
    assert "what is the capital of france → Paris." in told
    assert "Voice to voice" in told


def test_everything_measured_goes_into_the_json_and_the_picture(clips: Path, tmp_path: Path) -> None:
    out, plot = tmp_path / "r.json", tmp_path / "w.png"
    assert replay(clips, Script(), "--json", str(out), "--plot", str(plot)) == 0
    (clip,) = json.loads(out.read_text())["variants"]["server"]["clips"]
    (turn,) = clip["turns"]
    assert sum(turn["parts_ms"].values()) == turn["voice_to_voice_ms"]
    assert turn["record"]["prefilled_tokens"] == 7
    assert plot.exists()


def test_a_baseline_that_was_as_slow_is_met(clips: Path, tmp_path: Path) -> None:
    assert replay(clips, Script(), "--baseline", baseline(tmp_path / "old.json", 60_000)) == 0


def test_a_baseline_that_was_faster_fails_the_replay(clips: Path, tmp_path: Path) -> None:
    assert replay(clips, Script(), "--baseline", baseline(tmp_path / "old.json", 1), "--max-ratio", "1.25") == 1


def test_a_session_that_breaks_fails_the_replay(clips: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(clips, Script(breaks_after_ms=200)) == 1
    assert "a stage fell over" in capsys.readouterr().out


def test_a_bad_file_is_reported_and_the_others_are_replayed(
    clips: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clips / "bad.wav").write_text("this is no sound")
    assert replay(clips, Script(reply="Paris.")) == 2
    told = capsys.readouterr()
    assert "bad.wav" in told.err
    assert "Paris." in told.out


def test_only_the_categories_asked_for_are_replayed(clips: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(clips, Script(), "--category", "g") == 2
    assert "nothing to replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--url", "ws://h", "--compare", "sequential"],
        ["--url", "ws://h", "--offline-wer"],
        ["--url", "ws://h", "--drafts", "both"],
        ["--pace", "0"],
        ["--baseline", "missing.json"],
        ["--url", "mailto:nobody"],
    ],
)
def test_options_that_cannot_be_used_are_refused_before_anything_runs(
    clips: Path, options: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(clips), *options]) == 2
    assert capsys.readouterr().err.startswith("echoic: ")
