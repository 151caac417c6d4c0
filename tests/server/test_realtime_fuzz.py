"""Anything at all, sent to a whole session: an error, never a crash, never a stranger's word."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.events import (
    NobodySpoke,
    ReplyAudio,
    ReplyCalled,
    ReplyEnded,
    ReplyRefused,
    ReplyStarted,
    ReplyText,
    TurnFailed,
    TurnReopened,
    UserStarted,
    UserStopped,
    UserTranscript,
    UserWords,
)
from pipeline.ports import PromptRead, ToolCall
from server.realtime import RealtimeProtocol
from server.wishes import WantReply, grant
from tests.pipeline.conversation import Conversation, Say
from tests.server.hostile import Hostile

FRAMES = 3_000


def new_protocol() -> RealtimeProtocol:
    return RealtimeProtocol(model="small", instructions="Be brief.", voice="heart")


def told(protocol: RealtimeProtocol) -> list[dict[str, Any]]:
    """What it said, each an event that a client can read."""
    said, protocol.outgoing = protocol.outgoing, []
    events = [json.loads(text) for text in said]
    assert all(isinstance(event["type"], str) and isinstance(event["event_id"], str) for event in events)
    return events


def session_event(chance: random.Random, keys: list[str]) -> Any:
    """Something a session could tell, about a turn that may or may not be."""
    turn, key = chance.randrange(1, 6), chance.choice(keys)
    return chance.choice(
        [
            UserStarted(turn, 10.0),
            UserWords(turn, "Hel"),
            UserStopped(turn, chance.choice([None, 20.0])),
            UserTranscript(turn, "Hello", 1.0),
            TurnReopened(turn),
            TurnFailed(turn, "no ears"),
            NobodySpoke(turn, 1.0, 2.0),
            ReplyStarted(turn, key),
            ReplyRefused(key),
            ReplyText(turn, "Hi "),
            ReplyAudio(turn, bytes(960), 24_000),
            ReplyCalled(turn, ToolCall("call_1", "f", "{}")),
            ReplyEnded(turn, "completed", "Hi ", "Hi ", 2, read=PromptRead(5, 3)),
            ReplyEnded(turn, "cancelled", "Hi ", "", 2),
            ReplyEnded(turn, "failed", "", "", 0, "it broke"),
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_frame_and_no_order_of_events_breaks_the_protocol(seed: int) -> None:
    protocol, hostile, chance, keys = new_protocol(), Hostile(seed), random.Random(seed), [""]
    for _ in range(FRAMES):
        wishes = protocol.receive(hostile.frame())
        keys += [wish.request.key for wish in wishes if isinstance(wish, WantReply)]
        protocol.on_event(session_event(chance, keys))
        for event in told(protocol):
            hostile.learn(event)
    protocol.receive('{"type": "input_audio_buffer.clear"}')
    assert told(protocol)[-1]["type"] == "input_audio_buffer.cleared"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("aä\x00🙂", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(
    "session.update input_audio_buffer.append conversation.item.create conversation.item.retrieve response.create "
    "conversation.item.truncate conversation.item.delete response.cancel input_audio_buffer.commit".split()
)
KEYS = st.sampled_from("session audio item item_id response event_id content output_modalities metadata".split())


@given(KINDS, st.dictionaries(KEYS, JSON, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_event_of_a_client_breaks_the_protocol(kind: str, body: dict[str, Any]) -> None:
    protocol = new_protocol()
    protocol.receive(json.dumps({"type": kind, **body}))
    protocol.receive('{"type": "input_audio_buffer.clear"}')
    assert told(protocol)[-1]["type"] == "input_audio_buffer.cleared"


@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("seed", range(3))
async def test_a_hostile_client_harms_neither_its_session_nor_its_neighbour(seed: int) -> None:
    ours, theirs = (
        Conversation(Say(0.5, 1.5, f"Is it {word}?"), reply=f"{word} it is") for word in ("vermilion", "turquoise")
    )
    heard = await asyncio.gather(abused(ours, seed), abused(theirs, seed + 100))
    for own, strange, said in (("vermilion", "turquoise", heard[0]), ("turquoise", "vermilion", heard[1])):
        assert own in said
        assert strange not in said


async def abused(talk: Conversation, seed: int) -> str:
    """Two seconds of talk among hundreds of hostile frames, then a plain question; returns all that was told."""
    protocol, hostile = new_protocol(), Hostile(seed)
    talking = asyncio.create_task(talk.run(12))
    said: list[str] = []
    for number in range(600):
        for wish in protocol.receive(hostile.frame()):
            await grant(wish, talk.session, protocol)
        if number % 10 == 0:
            await asyncio.sleep(0.02)
        said += [json.dumps(event) for event in drained(talk, protocol, hostile)]
    await asyncio.sleep(4)
    for text in (
        '{"type": "session.update", "session": {"type": "realtime", "tool_choice": "auto", "tools": []}}',
        '{"type": "response.cancel"}',
        '{"type": "response.create", "response": {"conversation": "none", "input": [], "tools": []}}',
    ):
        for wish in protocol.receive(text):
            await grant(wish, talk.session, protocol)
    await talking
    said += [json.dumps(event) for event in drained(talk, protocol, hostile)]
    return "".join(said)


def drained(talk: Conversation, protocol: RealtimeProtocol, hostile: Hostile) -> list[dict[str, Any]]:
    """What the session told meanwhile, as the client is told of it."""
    entries, talk.log.entries = talk.log.entries, []
    for _, event in entries:
        protocol.on_event(event)
    events = told(protocol)
    for event in events:
        hostile.learn(event)
    return events
