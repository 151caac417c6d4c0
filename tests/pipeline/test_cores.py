"""Cores are handed out first come, first served."""

from __future__ import annotations

import threading

from pipeline.cores import Cores


def test_one_who_wants_all_cores_waits_for_the_one_who_has_one() -> None:
    cores, order = Cores(2), []

    def wants_all() -> None:
        with cores.take(2):
            order.append("all")

    with cores.take(1):
        waiting = threading.Thread(target=wants_all)
        waiting.start()
        order.append("one")
    waiting.join()
    assert order == ["one", "all"]


def test_single_jobs_run_side_by_side() -> None:
    cores = Cores(2)
    with cores.take(1), cores.take(1):
        pass


def test_a_small_job_does_not_overtake_a_large_one() -> None:
    cores, order = Cores(2), []
    asked = threading.Event()

    def job(name: str, wanted: int) -> None:
        asked.set()
        with cores.take(wanted):
            order.append(name)

    with cores.take(1):
        large = threading.Thread(target=job, args=("large", 2))
        large.start()
        asked.wait()
        while not cores.waiting:
            pass
        small = threading.Thread(target=job, args=("small", 1))
        small.start()
    large.join()
    small.join()
    assert order == ["large", "small"]


def test_nobody_can_want_more_than_there_is() -> None:
    with Cores(1).take(8):
        pass


def test_cores_come_back_after_a_failure() -> None:
    cores = Cores(1)
    try:
        with cores.take(1):
            raise RuntimeError("the model failed")
    except RuntimeError:
        pass
    with cores.take(1):
        pass
