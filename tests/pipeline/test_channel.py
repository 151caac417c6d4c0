"""Channels: a limit, a policy, and the contract of each call under cancellation."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.channel import Channel, ChannelClosed, Overflow

pytestmark = pytest.mark.looptime


async def test_what_is_sent_is_received_in_order() -> None:
    channel: Channel[int] = Channel("numbers", 3)
    for number in (1, 2, 3):
        await channel.send(number)
    assert [await channel.receive() for _ in range(3)] == [1, 2, 3]


async def test_a_full_channel_makes_the_sender_wait() -> None:
    channel: Channel[int] = Channel("numbers", 1)
    await channel.send(1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(channel.send(2), 1)
    assert await channel.receive() == 1
    assert channel.depth == 0


async def test_live_input_drops_the_oldest_and_counts_it() -> None:
    channel: Channel[int] = Channel("sound", 2, Overflow.DROP_OLDEST)
    for number in (1, 2, 3):
        await channel.send(number)
    assert await channel.receive() == 2
    assert channel.stats.dropped == 1


async def test_the_limit_counts_in_the_unit_of_the_size() -> None:
    channel: Channel[str] = Channel("sound", 10, Overflow.DROP_OLDEST, size=len)
    await channel.send("123456")
    await channel.send("7890ab")
    assert (channel.depth, channel.stats.peak) == (6, 6)


async def test_what_waits_can_be_taken_at_once_up_to_so_much() -> None:
    channel: Channel[str] = Channel("sound", 20, size=len)
    for item in ("four", "six...", "three", "two"):
        await channel.send(item)
    assert await channel.receive_some(10) == ["four", "six..."]
    assert await channel.receive_some(1) == ["three"]
    assert await channel.receive_some(10) == ["two"]
    assert (channel.depth, channel.stats.received) == (0, 4)


async def test_items_without_a_size_are_received_one_by_one_like_any_other() -> None:
    channel: Channel[str] = Channel("words", 20, size=lambda _item: 0.0)
    for item in ("one", "two", "three"):
        await channel.send(item)
    assert await channel.receive() == "one"
    assert await channel.receive_some(5) == ["two", "three"]


async def test_an_item_above_the_limit_still_gets_through() -> None:
    channel: Channel[str] = Channel("sound", 2, size=len)
    await channel.send("too long")
    assert await channel.receive() == "too long"


async def test_a_cancelled_receive_loses_nothing() -> None:
    channel: Channel[int] = Channel("numbers", 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(channel.receive(), 1)
    await channel.send(1)
    assert await channel.receive() == 1


async def test_closing_lets_the_rest_be_received_and_refuses_more() -> None:
    channel: Channel[int] = Channel("numbers", 5)
    await channel.send(1)
    await channel.close()
    with pytest.raises(ChannelClosed):
        await channel.send(2)
    assert [item async for item in channel] == [1]


async def test_closing_wakes_those_who_wait() -> None:
    channel: Channel[int] = Channel("numbers", 1)
    waiting = asyncio.create_task(channel.receive())
    await asyncio.sleep(1)
    await channel.close()
    with pytest.raises(ChannelClosed):
        await waiting


async def test_discarding_takes_out_only_what_is_unwanted() -> None:
    channel: Channel[int] = Channel("numbers", 5)
    for number in range(5):
        await channel.send(number)
    assert await channel.discard(lambda number: number % 2 == 0) == 3
    assert [await channel.receive() for _ in range(2)] == [1, 3]
