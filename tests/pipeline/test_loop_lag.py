"""Loop lag, on virtual time: every tick that a stall made late is noted with how late it was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from pipeline.loop_lag import MOST_TICKS, TICK_S, run_loop_lag
from pipeline.timing import loop_clock

pytestmark = pytest.mark.looptime(start=0)


async def lags(seconds: float, stalls: Mapping[float, float], tick_s: float = TICK_S) -> list[float]:
    """What is noted in so many seconds of a loop that stalls at a second for some seconds more."""
    noted: list[float] = []

    def clock() -> float:
        now = loop_clock()
        return now + sum(stall_s for at, stall_s in stalls.items() if at <= now)

    measuring = asyncio.create_task(run_loop_lag(noted.append, clock, tick_s=tick_s))
    await asyncio.sleep(seconds)
    measuring.cancel()
    await asyncio.wait([measuring])
    return noted


async def test_an_idle_loop_is_never_late() -> None:
    noted = await lags(1.0, {})
    assert len(noted) in (49, 50)
    assert max(noted) < 1e-6


async def test_a_stall_makes_every_tick_late_that_was_due_in_it() -> None:
    noted = await lags(0.51, {0.5: 0.1})
    assert [lag for lag in noted if lag > 1e-6] == pytest.approx([0.1, 0.08, 0.06, 0.04, 0.02], abs=1e-3)


async def test_after_a_stall_the_loop_is_on_time_again() -> None:
    noted = await lags(1.0, {0.5: 0.1})
    assert max(noted[-10:]) < 1e-6


async def test_ticks_may_be_seldom() -> None:
    noted = await lags(1.01, {0.5: 0.1}, tick_s=0.25)
    assert noted == pytest.approx([0, 0.1, 0, 0], abs=1e-3)


async def test_an_endless_stall_is_no_endless_list() -> None:
    noted = await lags(0.51, {0.5: 100 * MOST_TICKS * TICK_S})
    assert len(noted) <= MOST_TICKS + 26
