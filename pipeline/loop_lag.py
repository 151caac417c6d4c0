"""Loop lag: how late the event loop calls what is due, which is what any work that blocks it looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pipeline.timing import Clock, loop_clock

TICK_S = 0.02
SELDOM_S = 0.2  # the same percentiles, only later: each tick wakes a processor that may be resting
MOST_TICKS = 500  # of one stall: ten seconds of it say enough


async def run_loop_lag(
    note: Callable[[float], None], clock: Clock = loop_clock, *, tick_s: float = TICK_S
) -> None:
    """Call ``note`` with the seconds by which each tick was late, until cancelled.

    Ticks stand on a fixed grid and none is left out: a loop that stalls is late for all that were due in that
    time, so percentiles of what is noted are those of a call due at any moment. An idle loop is up to 1 ms late,
    the grain of its timers.
    """
    due_at = clock() + tick_s
    while True:
        await asyncio.sleep(due_at - clock())
        late_s = max(0.0, clock() - due_at)
        ticks = 1 + int(late_s / tick_s)
        for tick in range(min(ticks, MOST_TICKS)):
            note(late_s - tick * tick_s)
        due_at += ticks * tick_s
