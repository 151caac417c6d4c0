"""Hearing: live sound that nobody listens to in time is dropped, counted and replaced by silence."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.config import ListenConfig
from pipeline.hearing import Hearing
from pipeline.timing import loop_clock
from tests.pipeline.conversation import ScriptedActivity

SECOND = np.zeros(16_000, np.float32)


@pytest.mark.looptime(start=0)
async def test_sound_beyond_the_limit_is_dropped_oldest_first_and_counted() -> None:
    hearing = Hearing(ListenConfig(buffered_ms=2_000), ScriptedActivity([]), loop_clock)
    for _ in range(5):
        await hearing.push(SECOND)
    assert hearing.backlog.dropped == 3


@pytest.mark.looptime(start=0)
async def test_positions_stay_true_where_sound_was_dropped() -> None:
    hearing = Hearing(ListenConfig(buffered_ms=2_000), ScriptedActivity([]), loop_clock)
    for _ in range(5):
        await hearing.push(SECOND)
    await hearing.close()
    frames = [frame async for frame, _events in hearing.frames()]
    assert len(frames) * 512 == hearing.position >= 4.9 * 16_000
