"""Private mode through the whole server: spoken questions, real models, and a search for what was said."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from clients.clip import Visit
from clients.followups import LATE_S, SOON_S, converse, spoken
from clients.realtime import RATE_HZ, connect
from clients.traces import kept_by
from clients.uplink import open_uplink
from pipeline.backends.loader import Models
from pipeline.config import load_config
from pipeline.session import Session
from server.app import Server
from server.voices.hibari import HibariVoice

pytestmark = pytest.mark.models

RATE_HZ_IN_MS = 16  # positions of the session count samples at 16 kHz
SAID, ASKED = "My aunt has just moved to Berlin.", "In which city is my aunt?"


@pytest_asyncio.fixture
async def server(models: Models) -> AsyncIterator[Server]:
    voice = HibariVoice(private=True)
    async with Server(load_config(overrides={"memory.mode": "echoic"}), models=models, voice=voice) as running:
        yield running
    voice.close()


async def test_a_follow_up_is_given_the_state_within_three_seconds_and_nothing_after(server: Server) -> None:
    said, asked = await spoken(SAID, server.voice), await spoken(ASKED, server.voice)
    soon = await converse(server, [said, asked], SOON_S)
    late = await converse(server, [said, asked], LATE_S)
    assert soon.state_bits is not None
    assert late.state_bits is None
    assert not soon.kept
    assert not late.kept


async def test_nothing_of_a_spoken_turn_is_left_in_the_server(server: Server) -> None:
    said = await spoken(SAID, server.voice)
    async with connect(server.realtime_url, timing=True) as client, open_uplink(client) as uplink:
        visit = Visit(said, uplink, begins_s=uplink.speak(said.at(RATE_HZ)))
        await visit.listen(client)
        (reply,) = visit.hearing.replies
        assert reply.record is not None
        words = [reply.record["transcript"], reply.record["reply"]]
        assert not kept_by(server, words, (said, visit, reply, client, uplink))
        (session,) = [one for one in gc.get_objects() if type(one) is Session]
        heard = session._hearing.kept.cut(0, int(reply.record["speech_end_ms"] * RATE_HZ_IN_MS))
        assert len(heard.samples)
        assert not heard.samples.any()
        read = session._responder._conversation.cached_ids  # type: ignore[attr-defined]
        assert "Berlin" not in server.models.language_model.tokenizer.decode(read)
