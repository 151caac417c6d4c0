"""Push-to-talk on a keyboard that knows no letting go."""

from __future__ import annotations

import asyncio

import pytest

from clients.keys import FIRST_REPEAT_S, REPEAT_S, TalkKey
from clients.microphone import Gate

pytestmark = pytest.mark.looptime


async def test_a_tap_begins_and_another_ends() -> None:
    gate = Gate()
    key = TalkKey(gate)
    key.press()
    assert gate.push_to_talk
    assert gate.lets_through(speaker_busy=False)
    await asyncio.sleep(2)
    assert gate.talking
    key.press()
    assert not gate.lets_through(speaker_busy=False)


async def test_a_key_that_is_held_talks_until_it_is_let_go() -> None:
    gate = Gate(push_to_talk=True)
    key = TalkKey(gate)
    key.press()
    await asyncio.sleep(FIRST_REPEAT_S * 0.9)
    for _ in range(20):
        key.press()
        assert gate.talking
        await asyncio.sleep(0.03)
    await asyncio.sleep(REPEAT_S)
    assert not gate.talking


async def test_after_holding_a_tap_begins_again() -> None:
    gate = Gate()
    key = TalkKey(gate)
    key.press()
    await asyncio.sleep(0.5)
    key.press()
    await asyncio.sleep(1)
    assert not gate.talking
    key.press()
    await asyncio.sleep(1)
    assert gate.talking


@pytest.mark.parametrize(
    ("gate", "busy", "open_"),
    [
        (Gate(), True, True),
        (Gate(muted=True), False, False),
        (Gate(half_duplex=True), True, False),
        (Gate(half_duplex=True), False, True),
        (Gate(push_to_talk=True), False, False),
        (Gate(push_to_talk=True, talking=True), False, True),
        (Gate(push_to_talk=True, talking=True, muted=True), False, False),
    ],
)
def test_what_the_gate_lets_through(gate: Gate, busy: bool, open_: bool) -> None:
    assert gate.lets_through(busy) is open_
