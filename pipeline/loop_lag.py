"""Loop lag: how late the event loop calls what is due, which is what any work that blocks it looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pipeline.timing import Clock, loop_clock

TICK_S = 0.02
MOST_TICKS = 500  # of one stall: ten seconds of it say enough


async def run_loop_lag(note: Callable[[float], None], clock: Clock = loop_clock) -> None:
    """Call ``note`` with the seconds by which each tick was late, 50 ticks a second, until cancelled.

    Ticks stand on a fixed grid and none is left out: a loop that stalls for a second is late for fifty of them,
    so percentiles of what is noted are those of a call due at any moment. An idle loop is up to 1 ms late, the
    grain of its timers.
    """
    due_at = clock() + TICK_S
    while True:
        await asyncio.sleep(due_at - clock())
        late_s = max(0.0, clock() - due_at)
        ticks = 1 + int(late_s / TICK_S)
        for tick in range(min(ticks, MOST_TICKS)):
            note(late_s - tick * TICK_S)
        due_at += ticks * TICK_S
