"""Spoken over: what a listener hears of a reply, on virtual time; and one real interruption in real time."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.cli import main
from clients.clip import NO_REPLY_S, STALL_S
from clients.conduct import phrase, render_interruptions, write_interruptions
from clients.hearing import Piece, Reply
from clients.interruptions import (
    FIRST_AUDIO_S,
    FRAME_S,
    LEAD_S,
    LISTENED_S,
    Remark,
    SpokenOver,
    Trial,
    last_audible_at,
    lost_ms,
    noticed,
    remark_from,
    speak_over,
)
from clients.realtime import ServerGone
from clients.recordings import Recording
from clients.uplink import open_uplink
from pipeline.config import Config
from pipeline.interruption import Interruption
from pipeline.ports import InputError, Samples
from pipeline.store import Store
from pipeline.timing import loop_clock
from server.app import Server
from tests.clients.scripted import WIRE, Script, Timeline, scripted_server, tone

RATE_HZ = 24_000
Events = list[tuple[float, dict[str, Any]]]


def reply(name: str, begins: float, ends: float, status: str = "completed") -> Events:
    """A reply whose sound comes as it is heard, 20 ms at a time."""
    delta = base64.b64encode(WIRE.encode(tone(0.02))).decode()
    audio = {"type": "response.output_audio.delta", "response_id": name, "delta": delta}
    return [
        (begins, {"type": "response.created", "response": {"id": name}}),
        *((begins + 0.02 * number, audio) for number in range(round((ends - begins) / 0.02))),
        (ends, {"type": "response.done", "response": {"id": name, "status": status}}),
    ]


def told_of_speech(at: float) -> tuple[float, dict[str, Any]]:
    return at, {"type": "input_audio_buffer.speech_started", "item_id": "user", "audio_start_ms": 0}


def remark(kind: Interruption = Interruption.WORDS, seconds: float = 1.0, onset_s: float = 0.1) -> Remark:
    return Remark("a remark", tone(seconds), onset_s, kind)


async def met(events: Events, said: Remark, **session: Any) -> SpokenOver:
    """What a listener makes of a session that begins at 0."""
    client: Any = Timeline(*events, **session)
    async with open_uplink(client) as uplink:
        trial = Trial(said, uplink)
        await trial.listen(client)
        return trial.result()


virtual = pytest.mark.looptime(start=0)
STORY_AT = 1.0
SURE_AT = STORY_AT + LISTENED_S + 0.1 + 2 * FRAME_S


@virtual
async def test_a_reply_is_silent_when_the_last_sample_of_it_was_played() -> None:
    cut = SURE_AT + 0.15
    events = [told_of_speech(cut), *reply("story", STORY_AT, cut, "cancelled"), *reply("answer", 5.0, 5.5)]
    result = await met(events, remark())
    assert result.silent_after_ms == pytest.approx(150, abs=41)  # a block of sound up, a block of sound down
    assert (result.status, result.answered, result.stale_frames, result.fault) == ("cancelled", True, 0, "")


class LateEar:
    """Takes the fourth frame of a voice for speech, and all that come after it."""

    def __init__(self) -> None:
        self._voiced = 0

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        self._voiced += sum(bool(np.abs(frame).max() > 0.01) for frame in frames)
        return [float(self._voiced >= 4)] * len(frames)

    def reset(self) -> None: ...


@virtual
async def test_silence_is_counted_from_when_the_ear_notices_the_speech() -> None:
    said = await noticed(remark(onset_s=0.0), LateEar(), threshold=0.5)
    assert said.noticed_s == pytest.approx(5 * FRAME_S, abs=FRAME_S)
    cut = SURE_AT + 0.25
    events = [told_of_speech(cut), *reply("story", STORY_AT, cut, "cancelled"), *reply("answer", 5.0, 5.5)]
    result = await met(events, said)
    assert result.since_onset_ms is not None
    assert result.silent_after_ms == pytest.approx(result.since_onset_ms - 1000 * said.noticed_s)


@virtual
async def test_a_player_drops_what_it_still_has_when_it_is_told_of_speech() -> None:
    told = SURE_AT + 0.10
    behind = [
        (at - 0.3 if 2.0 < at < 4.0 else at, body)
        for at, body in reply("story", STORY_AT, told + 0.3, "cancelled")
    ]
    result = await met([told_of_speech(told), *behind, *reply("answer", 5.0, 5.5)], remark())
    assert result.silent_after_ms == pytest.approx(100, abs=25)


@virtual
async def test_pieces_that_come_after_the_news_of_speech_are_stale_and_heard() -> None:
    told = SURE_AT + 0.1
    events = [told_of_speech(told), *reply("story", STORY_AT, told + 0.1, "cancelled"), *reply("answer", 5.0, 5.5)]
    result = await met(events, remark())
    assert result.stale_frames == pytest.approx(5, abs=1)
    assert "after it was cut" in result.fault


@virtual
async def test_stop_is_wanted_to_have_no_answer() -> None:
    events = [told_of_speech(3.0), *reply("story", STORY_AT, 3.0, "cancelled")]
    result = await met(events, remark(Interruption.STOP))
    assert (result.answered, result.fault) == (False, "")
    assert loop_clock() < 3.6 + NO_REPLY_S


@virtual
async def test_words_without_an_answer_are_a_fault() -> None:
    result = await met([told_of_speech(3.0), *reply("story", STORY_AT, 3.0, "cancelled")], remark())
    assert result.fault == "never answered"


@virtual
async def test_a_reply_that_talks_on_over_words_is_a_fault() -> None:
    assert (await met(reply("story", STORY_AT, 8.0), remark())).fault == "the reply was not cut: completed"


@virtual
async def test_a_backchannel_that_ends_a_reply_is_a_fault() -> None:
    events = [told_of_speech(3.0), *reply("story", STORY_AT, 3.0, "cancelled")]
    result = await met(events, remark(Interruption.BACKCHANNEL))
    assert result.fault == "the reply did not go on: cancelled"


@virtual
async def test_a_reply_that_goes_on_after_a_backchannel_is_heard_to_its_end() -> None:
    result = await met(reply("story", STORY_AT, 8.0), remark(Interruption.BACKCHANNEL))
    assert (result.status, result.silent_after_ms, result.fault) == ("completed", None, "")
    assert loop_clock() == pytest.approx(8.0, abs=0.1)


@virtual
async def test_a_story_that_is_never_heard_is_not_waited_for_for_ever() -> None:
    assert (await met([], remark())).problem == "the story was never heard"
    assert loop_clock() == pytest.approx(FIRST_AUDIO_S)


@virtual
async def test_a_story_that_stalls_is_a_problem() -> None:
    result = await met(reply("story", STORY_AT, 3.0)[:-1], remark())
    assert result.problem == "the story never ended"
    assert loop_clock() == pytest.approx(STORY_AT + LISTENED_S + 1.0 + STALL_S, abs=0.1)


@virtual
async def test_a_session_that_ends_too_early_is_said_to_have_done_so() -> None:
    with pytest.raises(ServerGone, match="before the story was over"):
        await met(reply("story", STORY_AT, 3.0)[:-1], remark(), ends=True)


async def test_a_server_that_breaks_is_a_problem_of_the_remark() -> None:
    async with scripted_server(Script(breaks_after_ms=100)) as url:
        result = await speak_over(remark(), url)
    assert "a stage fell over" in result.problem


def pieces(*lengths_s: float, at: float = 10.0) -> list[Piece]:
    return [Piece(tone(length), at) for length in lengths_s]


def test_silence_at_the_end_of_a_reply_is_not_heard() -> None:
    quiet = Piece(np.zeros(RATE_HZ, np.float32), 10.0)
    assert last_audible_at([*pieces(0.5), quiet]) == pytest.approx(10.5, abs=0.002)


def test_nothing_is_heard_of_no_pieces() -> None:
    assert last_audible_at([]) is None


def told(text: str, *lengths_s: float) -> Reply:
    return Reply("story", 0.0, text=text, pieces=pieces(*lengths_s))


def test_sound_that_is_missing_counts_as_lost() -> None:
    assert lost_ms(told("The sea.", 0.5), told("The sea.", 0.5, 0.02)) == pytest.approx(20)


def test_sound_that_was_sent_twice_is_not_lost() -> None:
    assert lost_ms(told("The sea.", 0.5, 0.02), told("The sea.", 0.5)) == pytest.approx(-20)


def test_stories_of_different_words_are_not_compared() -> None:
    assert lost_ms(told("The sea.", 0.5), told("A sea.", 0.5)) is None


def recording(**facts: Any) -> Recording:
    return Recording(Path("clip.wav"), tone(8.0, 16_000), 16_000, **facts)


def test_a_recording_is_cut_to_begin_just_before_its_speech() -> None:
    said = remark_from(recording(transcript="what time is it", speech_start_s=2.5))
    assert said is not None
    assert (said.kind, said.onset_s) == (Interruption.WORDS, pytest.approx(LEAD_S))
    assert len(said.samples) / RATE_HZ == pytest.approx(8.0 - 2.5 + LEAD_S)


@pytest.mark.parametrize(
    ("transcript", "kind"),
    [("", Interruption.NOTHING), ("stop", Interruption.STOP), ("uh huh", Interruption.BACKCHANNEL)],
)
def test_what_is_said_decides_what_is_wanted(transcript: str, kind: Interruption) -> None:
    said = remark_from(recording(transcript=transcript, speech_start_s=0.1))
    assert said is not None
    assert said.kind is kind


@pytest.mark.parametrize("facts", [{"transcript": "hello"}, {"speech_start_s": 1.0}])
def test_a_recording_of_which_too_little_is_known_is_no_remark(facts: dict[str, Any]) -> None:
    assert remark_from(recording(**facts)) is None


WELL = SpokenOver("a", Interruption.WORDS, "cancelled", 150.0, 214.0, answered=True)


def test_the_table_has_a_row_for_every_kind_of_remark() -> None:
    noise = SpokenOver("b", Interruption.NOTHING, "completed", lost_ms=-20.0)
    table = render_interruptions([WELL, replace(WELL, silent_after_ms=250.0, answered=False), noise])
    columns = {str(column.header): list(column.cells) for column in table.columns}
    assert columns["remark"] == ["words", "noise"]
    assert (columns["p50"], columns["max"]) == (["200", "-"], ["250", "-"])
    assert (columns["replied"], columns["lost"], columns["bad"]) == (["1", "0"], ["-", "0"], ["1", "0"])


def test_everything_measured_is_written(tmp_path: Path) -> None:
    write_interruptions([WELL], path := tmp_path / "deep" / "over.json")
    (told_of,) = json.loads(path.read_text())["remarks"]
    assert (told_of["kind"], told_of["silent_after_ms"], told_of["fault"]) == ("words", 150.0, "")


def test_a_report_that_cannot_be_written_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the report"):
        write_interruptions([WELL], tmp_path)


def test_recordings_without_a_manifest_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "interruptions", str(tmp_path / "missing.wav")]) == 2
    assert "none of the recordings has a transcript and a speech_start_s" in capsys.readouterr().err


@pytest.mark.models
async def test_a_question_over_a_real_reply_cuts_it_and_is_answered(store: Store) -> None:
    async with Server(Config(), store=store) as server:
        question = await phrase("What is the capital of France?", server.voice)
        result = await speak_over(question, server.realtime_url)
    assert (result.status, result.stale_frames, result.answered, result.problem) == ("cancelled", 0, True, "")
    assert result.silent_after_ms is not None
