"""Worker: a model's own threads, so that no model ever runs on the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any, ParamSpec, TypeVar

from pipeline.cores import Cores

P = ParamSpec("P")
R = TypeVar("R")

# A session has at most a job or two in flight at a model, so this is a limit on sessions, not on work.
MAX_WAITING_JOBS = 256


class WorkerBusy(Exception):
    """More jobs are waiting for this model than the process can serve."""


class Worker:
    """Runs jobs in its own threads, in the order they were asked for; with one lane one after the other.

    Every caller awaits its job, so a caller has one job waiting at a time and callers take turns: fair by
    construction. Cancelling the await drops a job that has not begun; one that runs is finished and forgotten.
    """

    def __init__(self, name: str, cores: Cores | None = None, threads: int = 1, lanes: int = 1) -> None:
        """``cores``: taken for each job, as many as the model computes with; None for jobs too small to matter.

        ``lanes``: how many jobs may run side by side.
        """
        self.name = name
        self._cores = cores
        self._threads = threads
        self._jobs: queue.Queue[tuple[Future[Any], Callable[[], Any]] | None] = queue.Queue(MAX_WAITING_JOBS)
        self._lanes = [
            threading.Thread(target=self._work, name=f"echoic-{name}", daemon=True) for _ in range(lanes)
        ]
        for lane in self._lanes:
            lane.start()

    async def run(self, job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The job's result; its exception is raised here. Raises WorkerBusy when too many jobs wait."""
        future: Future[R] = Future()
        try:
            self._jobs.put_nowait((future, lambda: job(*args, **kwargs)))
        except queue.Full:
            raise WorkerBusy(f"{self.name}: {MAX_WAITING_JOBS} jobs are waiting already") from None
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish the running jobs, drop the waiting ones and end the threads."""
        while True:
            try:
                waiting = self._jobs.get_nowait()
            except queue.Empty:
                break
            if waiting is not None:
                waiting[0].cancel()
        for _ in self._lanes:
            self._jobs.put(None)
        for lane in self._lanes:
            lane.join()

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            future, job = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                with self._cores.take(self._threads) if self._cores else nullcontext():
                    future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - handed to the awaiting caller, whatever it is
                future.set_exception(error)
