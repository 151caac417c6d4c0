"""A talk whose connection breaks, with a real server: it comes back, and the conversation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from clients import resuming
from clients.microphone import Gate
from clients.realtime import ServerGone
from clients.resuming import LOST_EVENT, RESUMED_EVENT, ResumingClient, connect_resuming
from clients.room import Room
from clients.talk import Talk
from server.app import Server
from tests.clients.scripted import Script
from tests.clients.scripted import scripted_server as server_without_extras
from tests.clients.test_talk import Record
from tests.server.scripted import scripted_server

STORY = "Once upon a time there was a sea that nobody had ever seen"


def breaks(client: ResumingClient) -> None:
    """The network is gone from one moment to the next."""
    client._socket.transport.abort()


@asynccontextmanager
async def talking(server: Server) -> AsyncIterator[tuple[Talk, ResumingClient, Record]]:
    room, screen = Room(-100.0, 20.0), Record()
    passing = asyncio.create_task(room.run())
    async with connect_resuming(server.realtime_url) as client:
        talk = Talk(client, lambda _again: room, screen, Gate(), None)
        running = asyncio.create_task(talk.run())
        await screen.until("listening")
        yield talk, client, screen
        talk.stop()
        await running
    passing.cancel()
    with suppress(asyncio.CancelledError):
        await passing


async def test_a_reply_is_heard_to_its_end_and_the_talk_goes_on_after_the_connection_broke() -> None:
    async with scripted_server() as server, talking(server) as (talk, client, screen):
        await client.say(STORY)
        async with asyncio.timeout(20):
            while not talk.loudspeaker.spoken.sound_ms:  # noqa: ASYNC110  # the test looks, nobody tells it
                await asyncio.sleep(0.01)
            breaks(client)
            await screen.until(STORY)
            await client.say("And then")
            await screen.until("And then")
        assert server.sessions == 1
    lines = [(line.who, line.text.split(" after")[0], line.unheard) for line in screen.lines[1:]]
    assert lines == [
        ("", "the connection is lost, trying again", ""),
        ("", "the connection is back", ""),
        ("echoic", STORY, ""),
        ("echoic", "And then", ""),
    ]
    assert not talk.view.away


async def until(client: ResumingClient, kind: str) -> None:
    async for event in client:
        if event.type == kind:
            return


async def test_what_is_said_while_it_is_away_waits_and_the_oldest_sound_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resuming, "MOST_KEPT", 3)
    async with scripted_server() as server, connect_resuming(server.realtime_url) as client:
        await until(client, "echoic.session")
        breaks(client)
        await until(client, LOST_EVENT)
        for _ in range(5):
            await client.append(bytes(960))
        await client.say(STORY, answer="text")  # two events, which take the place of sound
        assert client.take_lost_blocks() == 4
        await until(client, RESUMED_EVENT)
        await until(client, "response.done")


async def test_a_server_that_keeps_no_session_is_gone_when_the_connection_breaks() -> None:
    async with server_without_extras(Script()) as url, connect_resuming(url) as client:
        breaks(client)
        with pytest.raises(ServerGone, match="connection to the server broke"):
            await until(client, "response.done")


async def test_a_session_that_was_given_up_meanwhile_is_told_to_be_over() -> None:
    async with scripted_server() as server, connect_resuming(server.realtime_url) as client:
        await until(client, "echoic.session")
        client._token = "no such session"
        breaks(client)
        with pytest.raises(ServerGone, match="has not kept the session"):
            await until(client, RESUMED_EVENT)
