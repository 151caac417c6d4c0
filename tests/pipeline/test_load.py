"""Load: what jobs waited lately, and only lately."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pipeline.cores import Cores
from pipeline.load import FEWEST_JOBS, WINDOW_S, Load
from pipeline.worker import Worker


def test_one_slow_job_among_many_is_no_load() -> None:
    load = Load()
    for waited in [0.01] * 99 + [5.0]:
        load.note(waited)
    assert load.wait_ms() == 10


def test_a_few_slow_jobs_after_a_quiet_are_no_load() -> None:
    load = Load()
    for _ in range(FEWEST_JOBS - 1):
        load.note(3.0)
    assert load.wait_ms() == 0


def test_what_was_long_ago_does_not_count() -> None:
    now = 0.0
    load = Load(lambda: now)
    for _ in range(FEWEST_JOBS):
        load.note(3.0)
    assert load.wait_ms() == 3_000
    now = WINDOW_S + 1
    assert load.wait_ms() == 0


async def test_jobs_that_wait_for_their_turn_are_noted() -> None:
    cores = Cores(1)
    worker, gate = Worker("test", cores), threading.Event()
    jobs = [asyncio.create_task(worker.run(gate.wait)) for _ in range(FEWEST_JOBS)]
    await asyncio.sleep(0.05)
    gate.set()
    await asyncio.gather(*jobs)
    worker.close()
    assert cores.load.wait_ms() >= 50


@pytest.mark.parametrize("conversations", [2, 5])
async def test_conversations_take_turns_token_by_token(conversations: int) -> None:
    """Whoever asks for a token has it after one token of each of the others, however long their replies are."""
    worker, order = Worker("test", Cores(2)), []

    async def reply(name: int) -> None:
        for _ in range(10):
            await worker.run(order.append, name)

    await asyncio.gather(*(reply(name) for name in range(conversations)))
    worker.close()
    rounds = [order[start : start + conversations] for start in range(0, len(order), conversations)]
    assert all(len(set(one)) == conversations for one in rounds)
