"""Hundreds of conversations that end in every way: nothing is left of them, and nobody hears another's reply.

``make soak`` runs as many as it takes to be sure; by default there are fewer.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections import Counter

import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from pipeline.session import Session
from server.app import Server
from tests.server.scripted import Caller, EchoModel, calling, scripted_server

CONVERSATIONS = int(os.environ.get("SOAK", "24"))
AT_ONCE = 8
MOST_GROWTH_BYTES = 24_000_000
SERVING = """
import asyncio
from tests.server.scripted import EchoModel, scripted_server

async def main():
    async with scripted_server(model=EchoModel(0.02), server__port={port}) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


class Visitor:
    """Somebody with a word of their own, who leaves at some moment: politely, or as phones do."""

    def __init__(self, number: int) -> None:
        self.word = f"heron{number}"
        self.dice = random.Random(number)
        self.heard = ""

    async def visit(self, server: Server) -> None:
        resumes = self.dice.random() < 0.3
        async with calling(server.realtime_url + ("?echoic=resume" if resumes else "")) as client:
            for _ in range(self.dice.randint(1, 3)):
                spoken = self.dice.random() < 0.6
                await client.ask(f"{self.word} " * 6, output_modalities=["audio" if spoken else "text"])
                if not await self._listen(client, self.dice.choice([0, 3, 12, 1_000])):
                    client.socket.transport.abort()
                    return

    async def _listen(self, client: Caller, most: int) -> bool:
        """Whether it heard the reply out."""
        for _ in range(most):
            event = await client.receive()
            if event["type"].endswith(("transcript.delta", "text.delta")):
                self.heard += event["delta"]
            if event["type"] == "response.done":
                return True
        return False


async def holdings(server: Server) -> Counter[str]:
    """What the process holds, once every conversation has ended."""
    async with asyncio.timeout(30):
        while server.sessions:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
    await asyncio.sleep(1)  # closing handshakes, and what still refers to the last of them
    gc.collect()
    return Counter(
        sessions=sum(type(each) is Session for each in gc.get_objects()),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        files=psutil.Process().num_fds(),
    )


async def soak(server: Server, numbers: range, at_once: int) -> None:
    """Let the visitors come, so many at a time, and see that each heard their own word only."""
    seats, heard = asyncio.Semaphore(at_once), []

    async def visit(number: int) -> None:
        visitor = Visitor(number)
        async with seats:
            await visitor.visit(server)
        assert set(visitor.heard.lower().split()) <= {visitor.word}
        heard.append(visitor.heard)

    async with asyncio.TaskGroup() as visits:
        for number in numbers:
            visits.create_task(visit(number))
    assert any(heard)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("at_once", [1, AT_ONCE], ids=["in sequence", "at once"])
async def test_nothing_is_left_of_conversations_however_they_end(at_once: int) -> None:
    async with scripted_server(model=EchoModel(0.002), limits__resume_s=0.1, server__max_sessions=100) as server:
        await soak(server, range(8), at_once)
        before = await holdings(server)
        await soak(server, range(8, 8 + CONVERSATIONS // 2), at_once)
        await holdings(server)
        memory = psutil.Process().memory_info().rss
        await soak(server, range(8 + CONVERSATIONS // 2, 8 + CONVERSATIONS), at_once)
        assert not await holdings(server) - before
        assert psutil.Process().memory_info().rss - memory < MOST_GROWTH_BYTES


async def serving(port: int) -> tuple[Process, str]:
    command = (sys.executable, "-c", SERVING.format(port=port))
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert process.stdout is not None
    return process, f"ws://127.0.0.1:{int(await process.stdout.readline())}/v1/realtime"


async def test_clients_of_a_server_that_is_killed_go_on_with_the_next_one() -> None:
    process, url = await serving(port=0)
    async with calling(f"{url}?echoic=resume") as client:
        token = (await client.until("echoic.session"))["token"]
        await client.ask("heron " * 100)
        await client.until("response.output_audio.delta")
        process.send_signal(signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            await client.until("response.done")
    await process.wait()
    process, url = await serving(int(url.split(":")[2].partition("/")[0]))
    async with calling(f"{url}?echoic=resume&token={token}") as client:
        assert (await client.receive())["error"]["code"] == "resume_failed"
    async with calling(f"{url}?echoic=resume") as client:
        await client.ask("heron", output_modalities=["text"])
        assert (await client.until("response.done"))["response"]["status"] == "completed"
    process.terminate()
    await process.wait()
