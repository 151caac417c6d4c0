"""Limits: what is waited for, and what is too much."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.timing import loop_clock
from server.limits import BURST_S, Pace
from server.outbox import EVENT_MS, Outbox, OutboxFull


async def seconds_for(messages: int, size: int) -> float:
    pace = Pace(bytes_per_s=1_000, events_per_s=100, clock=loop_clock)
    begin = loop_clock()
    for _ in range(messages):
        await pace.take(size)
    return loop_clock() - begin


@pytest.mark.looptime(start=0)
async def test_live_sound_is_never_held_up() -> None:
    assert await seconds_for(messages=50, size=40) == 0


@pytest.mark.looptime(start=0)
async def test_beyond_the_burst_bytes_are_read_at_their_rate() -> None:
    assert await seconds_for(messages=10, size=1_000) == pytest.approx(10 - BURST_S)


@pytest.mark.looptime(start=0)
async def test_beyond_the_burst_events_are_read_at_their_rate_however_small() -> None:
    assert await seconds_for(messages=10_000, size=0) == pytest.approx(100 - BURST_S)


@pytest.mark.looptime(start=0)
async def test_silence_saves_up_no_more_than_one_burst() -> None:
    pace = Pace(1_000, 100, loop_clock)
    await asyncio.sleep(3600)
    begin = loop_clock()
    await pace.take(5_000)
    assert loop_clock() - begin == pytest.approx(5 - BURST_S)


async def test_messages_are_told_in_order_and_once() -> None:
    outbox = Outbox(1_000)
    outbox.push(["a", "b"], 20)
    outbox.push(["c"])
    assert [await outbox.next(), outbox.take(), outbox.take()] == ["a", "b", "c"]
    assert not outbox
    assert outbox.backlog.waiting_ms == 0


async def test_who_waits_for_a_message_gets_it() -> None:
    outbox = Outbox(1_000)
    waiting = asyncio.create_task(outbox.next())
    await asyncio.sleep(0)
    outbox.push(["late"])
    assert await waiting == "late"


async def test_sound_that_nobody_takes_is_bounded() -> None:
    outbox = Outbox(100)
    outbox.push(["sound"], 99)
    with pytest.raises(OutboxFull, match="119 ms"):
        outbox.push(["sound"], 20)


async def test_events_without_sound_are_bounded_too() -> None:
    outbox = Outbox(100)
    with pytest.raises(OutboxFull):
        outbox.push(["event"] * round(100 / EVENT_MS + 1))
