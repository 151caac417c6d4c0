"""Load: how much of the cores' time jobs held lately, and only lately."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.cores import Cores
from pipeline.load import REMEMBERED_S, WINDOW_S, Load
from pipeline.worker import Worker


def test_the_share_is_of_the_time_of_all_cores() -> None:
    load = Load(4, lambda: 100.0)
    load.note(1.5, cores=2)
    load.note(3.0, cores=1)
    assert load.share() == pytest.approx((3 + 3) / (4 * WINDOW_S))


def test_the_busiest_seconds_count_until_they_are_long_ago() -> None:
    now = 100.0
    load = Load(1, lambda: now)
    load.note(4.0, cores=1)
    now += REMEMBERED_S / 2
    load.note(1.0, cores=1)
    assert load.share() == pytest.approx(4 / WINDOW_S)
    now += REMEMBERED_S / 2 + 1
    assert load.share() == pytest.approx(1 / WINDOW_S)
    now += REMEMBERED_S
    assert load.share() == 0


def test_of_an_endless_job_only_the_last_seconds_count() -> None:
    load = Load(2, lambda: 1_000.0)
    load.note(900.0, cores=2)
    assert load.share() == pytest.approx(1.0)


def test_cores_are_held_from_when_they_are_given_to_when_they_are_given_back() -> None:
    now = 5.0
    cores = Cores(4, lambda: now)
    with cores.take(8):
        now += 0.5
    assert cores.load.share() == pytest.approx(0.5 / WINDOW_S)


def test_what_those_who_left_took_is_not_put_down_to_those_who_stay() -> None:
    now = 100.0
    load = Load(1, lambda: now)
    load.note(6.0, cores=1)
    load.left(3)
    load.left(2)
    assert load.each(1) == pytest.approx(0.6 / 3)
    now += REMEMBERED_S + 1
    load.note(4.0, cores=1)
    assert load.each(1) == pytest.approx(0.4)


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
