"""Recordings and what is known about them; what is bad is told and hides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from clients.recordings import Recording, Rejected, read_recordings
from pipeline.ports import InputError

RATE_HZ = 16_000


def record(path: Path, seconds: float = 0.1, rate_hz: int = RATE_HZ, channels: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(
        path, np.full((round(seconds * rate_hz), channels), 0.25, np.float32), rate_hz, subtype="FLOAT"
    )
    return path


def only(places: list[Path]) -> Recording:
    (found,) = read_recordings(places)
    assert isinstance(found, Recording)
    return found


def test_a_manifest_says_what_is_known_of_a_recording(tmp_path: Path) -> None:
    record(tmp_path / "audio" / "one.wav")
    entry = {
        "file": "audio/one.wav",
        "transcript": "go on",
        "language": "en",
        "category": ["a", "c"],
        "speech_end_s": 0.08,
        "pauses": [[0.02, 0.01]],
        "licence": "anything else is ignored",
    }
    (tmp_path / "manifest.jsonl").write_text(json.dumps(entry) + "\n\n")
    found = only([tmp_path])
    assert (found.transcript, found.speech_end_s, found.pauses) == ("go on", 0.08, ((0.02, 0.01),))
    assert (found.name, found.category, found.scored, found.silent) == ("one", ("a", "c"), True, False)


def test_a_recording_named_alone_still_finds_its_manifest(tmp_path: Path) -> None:
    path = record(tmp_path / "audio" / "one.wav")
    (tmp_path / "manifest.jsonl").write_text('{"file": "audio/one.wav", "transcript": ""}\n')
    assert only([path]).silent


def test_a_text_file_beside_a_recording_is_its_transcript(tmp_path: Path) -> None:
    record(tmp_path / "one.wav")
    (tmp_path / "one.txt").write_text("hello there\n", encoding="utf-8")
    assert only([tmp_path]).transcript == "hello there"


def test_a_recording_of_which_nothing_is_known_is_neither_silent_nor_scored(tmp_path: Path) -> None:
    found = only([record(tmp_path / "one.wav")])
    assert (found.transcript, found.silent, found.scored) == (None, False, False)


@pytest.mark.parametrize("facts", [{"language": "fr"}, {"category": ["i"]}, {"transcript": ""}])
def test_only_english_words_of_one_voice_are_scored(tmp_path: Path, facts: dict[str, object]) -> None:
    record(tmp_path / "one.wav")
    entry = {"file": "one.wav", "transcript": "a", **facts}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(entry))
    assert not only([tmp_path]).scored


def test_stereo_at_any_rate_becomes_mono_at_the_rate_that_is_asked_for(tmp_path: Path) -> None:
    found = only([record(tmp_path / "one.wav", seconds=0.5, rate_hz=44_100, channels=2)])
    assert found.duration_s == pytest.approx(0.5)
    assert len(found.at(24_000)) == pytest.approx(12_000, abs=2)


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = record(tmp_path / "one.wav")
    assert len(list(read_recordings([path, tmp_path, path]))) == 1


def _missing(path: Path) -> None:
    assert not path.exists()


def _truncated(path: Path) -> None:
    record(path, seconds=1)
    path.write_bytes(path.read_bytes()[:2_000])


def _text(path: Path) -> None:
    path.write_text("this is no sound")


def _empty(path: Path) -> None:
    record(path, seconds=0)


def _not_a_number(path: Path) -> None:
    soundfile.write(path, np.full(100, np.nan, np.float32), RATE_HZ, subtype="FLOAT")


def _slow(path: Path) -> None:
    record(path, seconds=100, rate_hz=1)


def _fast(path: Path) -> None:
    record(path, seconds=0.01, rate_hz=768_000)


def _folder_without_sound(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("nothing to hear")


@pytest.mark.parametrize(
    "spoil", [_missing, _truncated, _text, _empty, _not_a_number, _slow, _fast, _folder_without_sound]
)
def test_what_is_bad_is_named_and_what_is_good_is_still_read(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    bad, good = tmp_path / "bad.wav", record(tmp_path / "good.wav")
    spoil(bad)
    rejected, found = list(read_recordings([bad, good]))
    assert isinstance(rejected, Rejected)
    assert str(bad) in rejected.reason
    assert isinstance(found, Recording)


def test_a_manifest_entry_that_makes_no_sense_spoils_only_its_own_file(tmp_path: Path) -> None:
    record(tmp_path / "a.wav")
    record(tmp_path / "b.wav")
    entries = [{"file": "a.wav", "pauses": [1, 2]}, {"file": "b.wav", "transcript": "b"}]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, entries)))
    rejected, found = list(read_recordings([tmp_path]))
    assert isinstance(rejected, Rejected)
    assert isinstance(found, Recording)


def test_a_manifest_that_cannot_be_read_is_an_error_with_its_line(tmp_path: Path) -> None:
    record(tmp_path / "a.wav")
    (tmp_path / "manifest.jsonl").write_text('{"file": "a.wav"}\nnot json\n')
    with pytest.raises(InputError, match=r"manifest\.jsonl, line 2"):
        list(read_recordings([tmp_path]))
