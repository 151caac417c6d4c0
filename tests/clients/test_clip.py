"""One recording through one session: over a real socket, and on virtual time where waiting is the matter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.accuracy import CutOff
from clients.clip import LONGEST_REPLY_S, NO_REPLY_S, STALL_S, Visit, replay_clip
from clients.latency import AUDIBLE, RECEIVED
from clients.realtime import ServerGone
from clients.recordings import Recording
from clients.uplink import Uplink
from pipeline.timing import loop_clock
from tests.clients.scripted import Script, Timeline, scripted_server, tone

FAST = 20.0


def recording(seconds: float = 0.4, tail_s: float = 0.3, **facts: Any) -> Recording:
    sound = np.concatenate([tone(seconds, 16_000), np.zeros(round(tail_s * 16_000), np.float32)])
    facts = {"transcript": "what is the capital of france", "speech_end_s": seconds, **facts}
    return Recording(Path("clip.wav"), sound, 16_000, **facts)


async def test_a_recording_is_heard_and_answered() -> None:
    async with scripted_server(Script(reply="Paris.")) as url:
        result = await replay_clip(recording(), url, pace=FAST)
    assert (result.heard, result.problems) == ("what is the capital of france", ())
    assert [(turn.reply, turn.cut_off) for turn in result.turns] == [("Paris.", CutOff.NONE)]


async def test_its_parts_add_up_to_its_voice_to_voice() -> None:
    async with scripted_server(Script(lead_in_s=0.05)) as url:
        answer = (await replay_clip(recording(), url, pace=FAST)).answer
    assert answer is not None
    assert sum(answer.parts_ms.values()) == answer.voice_to_voice_ms
    assert {"pause_seen", "asr_final", "first_token", "first_audio_sent", RECEIVED, AUDIBLE} == set(
        answer.parts_ms
    )


async def test_without_a_manifest_the_servers_own_end_of_speech_counts() -> None:
    unknown = recording(tail_s=0.0, transcript=None, speech_end_s=None)
    async with scripted_server(Script()) as url:
        result = await asyncio.wait_for(replay_clip(unknown, url, pace=FAST), 20)
    assert result.answer is not None


async def test_a_session_that_breaks_is_a_problem_and_what_came_before_is_kept() -> None:
    async with scripted_server(Script(breaks_after_ms=200)) as url:
        result = await replay_clip(recording(), url, pace=FAST)
    assert result.problems == ("the server closed the session with code 1011 (a stage fell over)",)


async def test_a_server_that_is_not_there_is_a_problem_of_the_clip() -> None:
    async with scripted_server(Script()) as url:
        pass
    (problem,) = (await replay_clip(recording(), url)).problems
    assert "no Realtime server" in problem


def created(reply: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": reply}}


def done(reply: str) -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": reply, "status": "completed"}}


RECORD = {"type": "echoic.turn", "record": {"reply": "x"}}


async def listened(session: Timeline, **facts: Any) -> tuple[Visit, float]:
    uplink = Uplink(session)
    visit = Visit(recording(1.0, 1.0, **facts), uplink, begins_s=0.0)
    await visit.listen(session)
    return visit, loop_clock()


@pytest.mark.looptime
async def test_a_visit_is_over_when_the_reply_is_done_and_its_record_is_there() -> None:
    session = Timeline((1.3, created("r")), (3.0, done("r")), (3.1, RECORD))
    assert (await listened(session))[1] == pytest.approx(3.1)


@pytest.mark.looptime
async def test_the_rest_of_the_recording_is_still_spoken_after_an_early_answer() -> None:
    session = Timeline((1.1, created("r")), (1.4, done("r")), (1.5, RECORD))
    assert (await listened(session))[1] == pytest.approx(2.0)


@pytest.mark.looptime
async def test_no_reply_is_waited_for_so_long_and_no_longer() -> None:
    assert (await listened(Timeline()))[1] == pytest.approx(2.0 + NO_REPLY_S)


@pytest.mark.looptime
async def test_a_reply_in_the_middle_of_the_speech_does_not_end_the_visit() -> None:
    session = Timeline(
        (0.4, created("r1")), (0.6, done("r1")), (0.6, RECORD), (2.5, created("r2")), (3.0, done("r2"))
    )
    visit, _ = await listened(session)
    assert len(visit.hearing.replies) == 2


@pytest.mark.looptime
async def test_a_reply_that_stalls_ends_the_visit_with_a_problem() -> None:
    visit, at = await listened(Timeline((1.3, created("r"))))
    assert at == pytest.approx(2.0 + STALL_S)
    assert visit.result().problems == ("the reply never finished",)


@pytest.mark.looptime
async def test_a_server_that_never_stops_talking_is_left_in_the_end() -> None:
    chatter = [(float(second), {"type": "rate_limits.updated"}) for second in range(2, 500)]
    assert (await listened(Timeline((1.3, created("r")), *chatter)))[1] == pytest.approx(2.0 + LONGEST_REPLY_S)


@pytest.mark.looptime
async def test_a_session_that_ends_too_early_is_said_to_have_done_so() -> None:
    with pytest.raises(ServerGone, match="before the recording was over"):
        await listened(Timeline((1.3, created("r")), ends=True))
