"""Worker: a model's own threads, so that no model ever runs on the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from pipeline.cores import Cores

P = ParamSpec("P")
R = TypeVar("R")

# A session has at most a job or two in flight at a model, so this is a limit on sessions, not on work.
MAX_WAITING_JOBS = 256


class WorkerBusy(Exception):
    """More jobs are waiting for this model than the process can serve."""


@dataclass(frozen=True, slots=True)
class _Entry:
    future: Future[Any]
    job: Callable[[], object]
    done: Callable[[], bool] = lambda: False


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
        self._jobs: queue.Queue[_Entry | None] = queue.Queue(MAX_WAITING_JOBS)
        self._lanes = [
            threading.Thread(target=self._work, name=f"echoic-{name}", daemon=True) for _ in range(lanes)
        ]
        for lane in self._lanes:
            lane.start()

    async def run(self, job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The job's result; its exception is raised here. Raises WorkerBusy when too many jobs wait."""
        future: Future[R] = Future()
        self._put(_Entry(future, lambda: job(*args, **kwargs)))
        return await asyncio.wrap_future(future)

    async def run_unless(self, done: Callable[[], bool], job: Callable[[], object]) -> None:
        """The job, or nothing, and no cores taken, where another has done by then what it was for."""
        future: Future[object] = Future()
        self._put(_Entry(future, job, done))
        await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish the running jobs, drop the waiting ones and end the threads."""
        while True:
            try:
                waiting = self._jobs.get_nowait()
            except queue.Empty:
                break
            if waiting is not None:
                waiting.future.cancel()
        for _ in self._lanes:
            self._jobs.put(None)
        for lane in self._lanes:
            lane.join()

    def _put(self, entry: _Entry) -> None:
        try:
            self._jobs.put_nowait(entry)
        except queue.Full:
            raise WorkerBusy(f"{self.name}: {MAX_WAITING_JOBS} jobs are waiting already") from None

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            if not entry.future.set_running_or_notify_cancel():
                continue
            try:
                entry.future.set_result(None if entry.done() else self._run(entry))
            except BaseException as error:  # noqa: BLE001 - handed to the awaiting caller, whatever it is
                entry.future.set_exception(error)

    def _run(self, entry: _Entry) -> object:
        with self._cores.take(self._threads) if self._cores else nullcontext():
            return entry.job()
