"""The Realtime client against a real socket."""

from __future__ import annotations

import base64

import pytest

from clients.realtime import RealtimeClient, ServerEvent, ServerGone, connect, realtime_url
from pipeline.ports import InputError
from tests.clients.scripted import WIRE, Script, scripted_server, tone


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ("ws://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/realtime"),
        ("ws://127.0.0.1:8080/v1", "ws://127.0.0.1:8080/v1/realtime"),
        ("ws://127.0.0.1:8080/v1/realtime", "ws://127.0.0.1:8080/v1/realtime"),
        ("http://localhost:8080/v1/", "ws://localhost:8080/v1/realtime"),
        ("https://voice.example/v1", "wss://voice.example/v1/realtime"),
        ("localhost:8080", "ws://localhost:8080/v1/realtime"),
        ("ws://h/v1/realtime?model=m", "ws://h/v1/realtime?model=m"),
    ],
)
def test_any_address_of_a_server_leads_to_its_realtime_endpoint(given: str, opened: str) -> None:
    assert realtime_url(given) == opened


def test_timing_is_asked_for_in_the_query_only() -> None:
    assert realtime_url("ws://h/v1?model=m", timing=True) == "ws://h/v1/realtime?model=m&echoic=timing"


@pytest.mark.parametrize("given", ["ftp://h/v1", "ws://", "", "mailto:nobody", "ws://h:99999"])
def test_what_is_no_websocket_address_is_said_to_be_none(given: str) -> None:
    with pytest.raises(InputError, match="not a WebSocket address"):
        realtime_url(given)


async def until(client: RealtimeClient, kind: str) -> list[ServerEvent]:
    events = []
    async for event in client:
        events.append(event)
        if event.type == kind:
            return events
    raise AssertionError(f"{kind} never came")


async def test_a_typed_turn_is_answered() -> None:
    script = Script(reply="Paris.")
    async with scripted_server(script) as url, connect(url) as client:
        await client.say("What is the capital of France?")
        events = await until(client, "response.done")
    assert [event.body["delta"] for event in events if event.type.endswith("transcript.delta")] == ["Paris."]
    item, response = script.sessions[0]
    assert item["item"]["content"] == [{"type": "input_text", "text": "What is the capital of France?"}]
    assert response["response"] == {"output_modalities": ["audio"]}


async def test_sound_arrives_as_it_was_appended() -> None:
    script, pcm = Script(), WIRE.encode(tone(0.02))
    async with scripted_server(script) as url, connect(url) as client:
        await client.append(pcm)
        await until(client, "input_audio_buffer.speech_started")
    assert base64.b64decode(script.sessions[0][0]["audio"]) == pcm


async def test_settings_and_cancelling_travel_as_the_protocol_names_them() -> None:
    script = Script()
    async with scripted_server(script) as url, connect(url) as client:
        await client.cancel()
        await client.configure(instructions="Be brief.")
        await until(client, "session.updated")
    assert script.sessions[0] == [
        {"type": "response.cancel"},
        {"type": "session.update", "session": {"type": "realtime", "instructions": "Be brief."}},
    ]


async def test_a_session_that_the_server_breaks_off_says_why() -> None:
    async with scripted_server(Script(breaks_after_ms=0)) as url, connect(url) as client:
        await client.append(WIRE.encode(tone(0.02)))
        with pytest.raises(ServerGone, match=r"code 1011 \(a stage fell over\)"):
            await until(client, "response.done")


async def test_a_refusal_is_told_in_the_servers_words() -> None:
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "too many sessions"}}
    async with scripted_server(Script(greeting=refusal)) as url:
        with pytest.raises(ServerGone, match="too many sessions"):
            async with connect(url):
                pass


async def test_a_server_of_another_protocol_is_recognised() -> None:
    async with scripted_server(Script(greeting={"type": "hello"})) as url:
        with pytest.raises(ServerGone, match="does not speak the Realtime protocol"):
            async with connect(url):
                pass


async def test_a_server_that_is_not_there_is_named_with_the_command_that_starts_one() -> None:
    async with scripted_server(Script()) as url:
        pass
    with pytest.raises(ServerGone, match=r"no Realtime server at ws://.*echoic serve"):
        async with connect(url):
            pass
