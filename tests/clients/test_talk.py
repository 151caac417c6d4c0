"""A talk over a real socket, in a simulated room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from audio.devices import DeviceError, Direction
from clients import talk as talks
from clients.microphone import Gate
from clients.realtime import RATE_HZ, ServerGone, connect
from clients.room import Room
from clients.talk import Talk
from clients.view import Line, View
from tests.clients.scripted import Script, scripted_server, tone


class Record:
    """A screen that keeps what it was shown."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.added = asyncio.Event()

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.added.set()

    def update(self, view: View) -> None: ...

    async def until(self, text: str) -> None:
        while not any(text in line.text for line in self.lines):
            self.added.clear()
            await self.added.wait()


class Fragile(Room):
    """A room whose microphone can be pulled out."""

    def __init__(self) -> None:
        super().__init__(gain_db=-100.0, delay_ms=20.0)
        self.pulled: Direction | None = None

    def gone(self) -> Direction | None:
        return self.pulled


@asynccontextmanager
async def talking(
    script: Script, rooms: list[Room | DeviceError], *, until_it_ends: bool = False
) -> AsyncIterator[tuple[Talk, Record]]:
    """A talk going on; each time devices are opened it gets the next room, or fails to."""
    screen = Record()

    def open_ends(_again: bool) -> Room:
        room = rooms.pop(0)
        if isinstance(room, DeviceError):
            raise room
        return room

    passing = [asyncio.create_task(room.run()) for room in rooms if isinstance(room, Room)]
    try:
        async with scripted_server(script) as url, connect(url, timing=True) as client:
            talk = Talk(client, open_ends, screen, Gate(), None)
            running = asyncio.create_task(talk.run())
            yield talk, screen
            if not until_it_ends:
                talk.stop()
            await running
    finally:
        for each in passing:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each


async def test_what_is_said_in_the_room_is_answered_in_it() -> None:
    room = Room(-100.0, 20.0)
    async with talking(Script(transcript="how are you", reply="Fine."), [room]) as (talk, screen):
        await screen.until("listening")
        room.speak(tone(0.3), RATE_HZ)
        await screen.until("Fine.")
    assert [(line.who, line.text) for line in screen.lines[1:]] == [("you", "how are you"), ("echoic", "Fine.")]
    assert talk.view.turns
    assert talk.view.gaps == 0


async def test_a_device_that_vanishes_is_replaced_and_the_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talks, "RETRY_S", 0.01)
    first, second, script = Fragile(), Room(-100.0, 20.0), Script(reply="Fine.")
    async with talking(script, [first, DeviceError("there is no microphone"), second]) as (_talk, screen):
        await screen.until("listening")
        first.pulled = "input"
        await screen.until("now using")
        second.speak(tone(0.3), RATE_HZ)
        await screen.until("Fine.")
    assert [line.text for line in screen.lines[1:4]] == [
        "the microphone “simulated input” has gone",
        "there is no microphone; trying again",
        "now using “simulated input” and “simulated output”",
    ]
    assert len(script.sessions) == 1


async def test_no_device_to_begin_with_ends_the_talk() -> None:
    with pytest.raises(DeviceError, match="no microphone"):
        async with talking(Script(), [DeviceError("there is no microphone")]):
            pass


async def test_a_session_that_breaks_is_told() -> None:
    with pytest.raises(ServerGone, match="a stage fell over"):
        async with talking(Script(breaks_after_ms=100), [Room(-100.0, 20.0)], until_it_ends=True):
            pass
