"""``echoic serve`` in a process of its own, seen from outside: its start, its idling, its memory."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from clients.realtime import RATE_HZ, RealtimeClient, connect
from clients.uplink import open_uplink
from pipeline.ports import EchoicError

READY_S, SAYS_URL = 300.0, b"Realtime"
IDLE_S, SETTLE_S = 15.0, 5.0  # a server that was just started, or spoken to, is not idle yet
HISS_LEVEL = 0.001  # a quiet room's noise, root mean square: -60 dB of full scale
# A turn every ten minutes is no idling, and whoever is to be measured is let in.
MEASURED = ("--set", "server.self_test_s=0", "--set", "server.full_share=9")
TURN_S = 120.0


@dataclass(frozen=True, slots=True)
class Served:
    """A server that is ready: where, how long that took, and its process."""

    url: str
    ready_s: float
    process: psutil.Process

    def rss(self) -> int:
        """Its resident memory in bytes."""
        return int(self.process.memory_info().rss)

    async def share_of_a_core(self, seconds: float) -> float:
        """How much of a core it takes, over so many seconds."""
        began, before = time.perf_counter(), self._processor_s()
        await asyncio.sleep(seconds)
        return (self._processor_s() - before) / (time.perf_counter() - began)

    def _processor_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@dataclass(frozen=True, slots=True)
class Outside:
    """What is seen of servers from outside: seconds, shares of a core, bytes; ``weights`` are the files'."""

    starts_s: list[float]
    readings_s: list[float]
    empty_share: float
    silent_share: float
    hissing_share: float
    empty: int
    added: list[int]
    weights: int


async def look(arguments: Sequence[str], models: Sequence[Path | str], *, starts: int, sessions: int) -> Outside:
    """Start a server so many times; let the last one idle, and give it so many sessions.

    ``models``: the folders of its weights; what is no folder is not read.
    """
    files = _files_in(models)
    readings = [_reading_s(files) for _ in range(starts + 1)][1:]
    ready: list[float] = []
    for _ in range(starts - 1):
        async with serving(arguments) as server:
            ready.append(server.ready_s)
    async with serving([*arguments, *MEASURED]) as server:
        ready.append(server.ready_s)
        await asyncio.sleep(SETTLE_S)
        empty_share = await server.share_of_a_core(IDLE_S)
        silent_share, hissing_share = await _idle_share(server, 0.0), await _idle_share(server, HISS_LEVEL)
        empty, added = await _memory_of_sessions(server, sessions)
    weights = sum(path.stat().st_size for path in files)
    return Outside(ready, readings, empty_share, silent_share, hissing_share, empty, added, weights)


@asynccontextmanager
async def serving(arguments: Sequence[str]) -> AsyncIterator[Served]:
    """A server with these options, until the block is left. Raises EchoicError where it does not come up."""
    command = (sys.executable, "-m", "clients.cli", "serve", "--port", "0", *arguments)
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        async with asyncio.timeout(READY_S):
            url = await _address(process)
        yield Served(url, time.perf_counter() - began, psutil.Process(process.pid))
    except TimeoutError as error:
        raise EchoicError(f"echoic serve was not ready after {READY_S:.0f} s") from error
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _address(process: Process) -> str:
    assert process.stdout is not None
    async for line in process.stdout:
        if line.startswith(SAYS_URL):
            return line.split()[1].decode()
    raise EchoicError("echoic serve ended before it was ready; run it by itself to see why")


async def _idle_share(server: Served, level: float) -> float:
    """Of a core, with one session into which noise of this level is sent in real time, 20 ms a message."""
    noise = np.random.default_rng(0).normal(0.0, 1.0, round((SETTLE_S + 2 * IDLE_S) * RATE_HZ)) * level
    async with connect(server.url) as client, open_uplink(client) as uplink:
        uplink.speak(noise.astype(np.float32))
        await asyncio.sleep(SETTLE_S)
        return await server.share_of_a_core(IDLE_S)


async def _memory_of_sessions(server: Served, count: int) -> tuple[int, list[int]]:
    """Resident bytes before any session, and what each of them adds with its first turn; all stay open."""
    before = empty = server.rss()
    added = []
    async with AsyncExitStack() as stack:
        for _ in range(count):
            client = await stack.enter_async_context(connect(server.url))
            await _turn(client)
            now = server.rss()
            added.append(now - before)
            before = now
    return empty, added


async def _turn(client: RealtimeClient) -> None:
    await client.say("What is the capital of France?")
    try:
        async with asyncio.timeout(TURN_S):
            async for event in client:
                if event.type == "response.done":
                    return
    except TimeoutError as error:
        raise EchoicError(f"a typed question was not answered within {TURN_S:.0f} s") from error


def _files_in(folders: Sequence[Path | str]) -> list[Path]:
    return [path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.is_file()]


def _reading_s(files: Sequence[Path]) -> float:
    """Seconds that reading them takes."""
    began = time.perf_counter()
    for path in files:
        path.read_bytes()
    return time.perf_counter() - began
