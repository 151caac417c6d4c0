"""A lost connection is not the end of a conversation, for clients that ask for that."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from server.keys import Keys
from server.outbox import Outbox
from tests.pipeline.remembering import RememberingModel
from tests.server.scripted import Caller, EchoModel, calling, scripted_server

STORY = "Once upon a time there was a sea that nobody had ever seen."


def breaks(client: Caller) -> None:
    """The network is gone from one moment to the next."""
    client.socket.transport.abort()


async def begin(client: Caller) -> str:
    token = (await client.until("echoic.session"))["token"]
    assert isinstance(token, str)
    return token


async def sound_until_done(client: Caller) -> bytes:
    """The sound of a reply, up to its end."""
    sound = b""
    while (event := await client.receive())["type"] != "response.done":
        if event["type"] == "response.output_audio.delta":
            sound += base64.b64decode(event["delta"])
    assert event["response"]["status"] == "completed"
    return sound


async def whole_reply(url: str) -> bytes:
    async with calling(f"{url}?echoic=resume") as client:
        await client.ask(STORY)
        return await sound_until_done(client)


async def test_a_client_that_comes_back_hears_exactly_what_it_missed() -> None:
    async with scripted_server() as server:
        url = f"{server.realtime_url}?echoic=resume"
        whole = await whole_reply(server.realtime_url)
        async with calling(url) as client:
            token = await begin(client)
            await client.ask(STORY)
            first = await client.until("response.output_audio.delta")
            breaks(client)
        await asyncio.sleep(0.3)  # the reply would go on meanwhile
        async with calling(f"{url}&token={token}&last={first['event_id']}") as client:
            assert (await client.receive())["type"] == "echoic.resumed"
            assert base64.b64decode(first["delta"]) + await sound_until_done(client) == whole


async def test_the_history_goes_on_and_nothing_was_lost() -> None:
    async with scripted_server(model=EchoModel()) as server:
        url = f"{server.realtime_url}?echoic=resume"
        async with calling(url) as client:
            token = await begin(client)
            await client.ask("Remember the word heron.", output_modalities=["text"])
            item = (await client.until("conversation.item.added"))["item"]
            last = await client.until("response.done")
            breaks(client)
        async with calling(f"{url}&token={token}&last={last['event_id']}") as client:
            resumed = await client.receive()
            assert resumed["lost_events"] == 0
            await client.send("conversation.item.retrieve", item_id=item["id"])
            assert (await client.receive())["item"]["content"] == item["content"]


async def test_a_client_that_stays_away_loses_its_session_and_is_told_so() -> None:
    async with scripted_server(limits__resume_s=0.05) as server:
        url = f"{server.realtime_url}?echoic=resume"
        async with calling(url) as client:
            token = await begin(client)
            breaks(client)
        async with asyncio.timeout(10):
            while server.sessions:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)
        async with calling(f"{url}&token={token}") as client:
            assert (await client.receive())["error"]["code"] == "resume_failed"
            assert (await client.closing())[0] == 4004


async def test_a_client_that_says_goodbye_is_not_waited_for() -> None:
    async with scripted_server() as server:
        async with calling(f"{server.realtime_url}?echoic=resume") as client:
            await begin(client)
        async with asyncio.timeout(5):
            while server.sessions:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)


async def test_a_second_connection_takes_the_conversation_over() -> None:
    async with scripted_server() as server:
        url = f"{server.realtime_url}?echoic=resume"
        async with calling(url) as old:
            token = await begin(old)
            async with calling(f"{url}&token={token}") as new:
                assert (await new.receive())["type"] == "echoic.resumed"
                assert (await old.closing())[0] == 1006
                await new.ask("Hello")
                await new.until("response.done")
                assert server.sessions == 1


async def test_nobody_takes_over_the_session_of_another_key() -> None:
    mine, theirs = "m" * 32, "t" * 32
    async with scripted_server(keys=Keys([mine, theirs])) as server:
        url = f"{server.realtime_url}?echoic=resume"
        async with calling(url, additional_headers={"Authorization": f"Bearer {mine}"}) as client:
            token = await begin(client)
            stranger: dict[str, Any] = {"additional_headers": {"Authorization": f"Bearer {theirs}"}}
            async with calling(f"{url}&token={token}", **stranger) as thief:
                assert (await thief.receive())["error"]["code"] == "resume_failed"


async def test_a_server_that_stops_does_not_wait_for_a_client_that_is_away() -> None:
    server = await scripted_server().__aenter__()
    async with calling(f"{server.realtime_url}?echoic=resume") as client:
        await begin(client)
        breaks(client)
    async with asyncio.timeout(10):
        await server.__aexit__(None, None, None)


async def test_stock_clients_are_told_nothing_of_it() -> None:
    async with scripted_server() as server, calling(server.realtime_url) as client:
        await client.ask("Hello", output_modalities=["text"])
        kinds = []
        while (event := await client.receive())["type"] != "response.done":
            kinds.append(event["type"])
        assert not [kind for kind in kinds if kind.startswith("echoic.")]


async def test_what_the_memory_holds_is_told_to_those_who_ask_and_never_its_words() -> None:
    async with scripted_server(model=RememberingModel("It is ten", 0.0), memory__mode="echoic") as server:
        async with calling(f"{server.realtime_url}?echoic=memory") as client:
            await client.ask(STORY)
            held = await client.until("echoic.memory")
        async with calling(server.realtime_url) as stock:
            await stock.ask(STORY)
            told = [(await stock.receive())["type"] for _ in range(10)]
    assert held["weights"]
    assert held["left_s"] > 2
    assert held.keys() == {"type", "event_id", "weights", "left_s", "fading"}
    assert "echoic.memory" not in told


def told(outbox: Outbox, *names: str) -> None:
    for name in names:
        outbox.push([f'{{"event_id":"{name}"}}'], 10)
        outbox.take()


def test_what_came_after_the_last_event_is_told_again() -> None:
    outbox = Outbox(1_000, kept_ms=1_000)
    told(outbox, "a", "b", "c")
    assert outbox.rewind("a") == 0
    assert [outbox.take(), outbox.take()] == ['{"event_id":"b"}', '{"event_id":"c"}']


@pytest.mark.parametrize("last", ["", "a"])
def test_what_was_forgotten_is_counted_as_lost(last: str) -> None:
    outbox = Outbox(1_000, kept_ms=25)
    told(outbox, "a", "b", "c", "d")
    assert outbox.rewind(last) == 2
    assert outbox.take() == '{"event_id":"c"}'
