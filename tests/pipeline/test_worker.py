"""Workers: jobs in order, in a thread of their own, with failures handed to whoever waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from pipeline.cores import Cores
from pipeline.worker import Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("test")
    yield made
    made.close()


async def test_a_job_runs_in_the_workers_own_thread(worker: Worker) -> None:
    assert await worker.run(lambda: threading.current_thread().name) == "echoic-test"


async def test_callers_are_served_in_turn(worker: Worker) -> None:
    order: list[int] = []
    await asyncio.gather(*(worker.run(order.append, number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_a_failure_reaches_the_caller_and_the_worker_goes_on(worker: Worker) -> None:
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    assert await worker.run(lambda: 1) == 1


async def test_a_cancelled_job_that_has_not_begun_never_runs(worker: Worker) -> None:
    gate, ran = threading.Event(), []
    first = asyncio.create_task(worker.run(gate.wait))
    second = asyncio.create_task(worker.run(ran.append, "second"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    gate.set()
    await first
    await worker.run(lambda: None)
    assert not ran


async def test_a_second_lane_does_not_wait_for_the_first() -> None:
    worker, gate = Worker("wide", lanes=2), threading.Event()
    slow = asyncio.create_task(worker.run(gate.wait))
    assert await worker.run(lambda: "quick") == "quick"
    gate.set()
    await slow
    worker.close()


async def test_a_job_that_is_needed_no_more_is_not_run_and_waits_for_no_core() -> None:
    cores, ran = Cores(1), []
    worker = Worker("test", cores)
    with cores.take(1):
        await worker.run_unless(lambda: True, lambda: ran.append("needless"))
    await worker.run_unless(lambda: False, lambda: ran.append("needed"))
    assert ran == ["needed"]
    worker.close()


def test_a_closed_worker_has_no_thread() -> None:
    worker = Worker("brief")
    worker.close()
    assert "echoic-brief" not in {thread.name for thread in threading.enumerate()}
