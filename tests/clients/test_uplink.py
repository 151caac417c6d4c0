"""A recording is spoken in real time, by absolute deadlines, on virtual time."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from clients.realtime import ServerGone
from clients.uplink import Uplink, open_uplink
from pipeline.timing import loop_clock
from tests.clients.scripted import WIRE, tone

BLOCK_S = 0.02
pytestmark = pytest.mark.looptime


class Wire:
    """Takes blocks and notes when; may stall once, or break."""

    def __init__(self, stall_s: float = 0.0, breaks: bool = False) -> None:
        self.blocks: list[tuple[float, np.ndarray]] = []
        self._stall_s = stall_s
        self._breaks = breaks

    async def append(self, pcm: bytes) -> None:
        if self._breaks:
            raise ServerGone("the connection to the server broke")
        self.blocks.append((loop_clock(), WIRE.decode(pcm)))
        stall_s, self._stall_s = self._stall_s, 0.0
        await asyncio.sleep(stall_s)

    def sound(self) -> np.ndarray:
        return np.concatenate([samples for _, samples in self.blocks])


async def test_a_block_leaves_once_its_last_sample_was_spoken() -> None:
    wire = Wire()
    async with open_uplink(wire) as uplink:
        await asyncio.sleep(1.001)
        assert [at for at, _ in wire.blocks] == pytest.approx([BLOCK_S * (n + 1) for n in range(len(wire.blocks))])
        assert uplink.position_s == pytest.approx(1.0)


async def test_a_stall_is_caught_up_with_so_that_nothing_drifts() -> None:
    wire = Wire(stall_s=0.21)
    async with open_uplink(wire) as uplink:
        await asyncio.sleep(1.001)
        assert uplink.position_s == pytest.approx(1.0)
        assert uplink.latest_ms == pytest.approx(190)


async def test_speech_goes_out_between_silence_at_the_position_it_was_given() -> None:
    wire = Wire()
    async with open_uplink(wire) as uplink:
        await asyncio.sleep(0.1)
        begins_s = uplink.speak(tone(0.05))
        await asyncio.sleep(0.2)
    spoken = np.flatnonzero(wire.sound())
    assert spoken[0] / 24_000 == pytest.approx(begins_s, abs=1e-4)
    assert len(spoken) == pytest.approx(1_200, abs=3)


async def test_what_is_said_while_something_waits_follows_it() -> None:
    async with open_uplink(Wire()) as uplink:
        assert [uplink.speak(tone(0.5)), uplink.speak(tone(0.5))] == pytest.approx([0.0, 0.5])


async def test_positions_and_times_are_two_sides_of_one_line() -> None:
    uplink = Uplink(Wire(), pace=2.0)
    began = loop_clock()
    assert uplink.spoken_at(3.0) == pytest.approx(began + 1.5)
    assert uplink.position_at(began + 1.5) == pytest.approx(3.0)


async def test_a_sample_was_sent_when_its_block_left() -> None:
    async with open_uplink(Wire()) as uplink:
        await asyncio.sleep(0.5)
        began = uplink.spoken_at(0.0)
        assert uplink.sent_at(0.101) - began == pytest.approx(0.12)
        assert uplink.sent_at(99.0) - began == pytest.approx(uplink.position_s)


async def test_a_server_that_is_gone_ends_the_sending_quietly() -> None:
    async with open_uplink(Wire(breaks=True)):
        await asyncio.sleep(0.1)
