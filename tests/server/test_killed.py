"""A server that dies: its process is killed in the middle of a reply, and a new one takes its place."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.server.asking import Heard, listen

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@asynccontextmanager
async def serving(port: int) -> AsyncIterator[Process]:
    """``echoic serve`` as a process of its own, from when it is ready."""
    command = [sys.executable, "-m", "clients.cli", "serve", "--port", str(port)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if line.startswith(b"Stop with"):
                break
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ask(connection: Any, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
    await connection.response.create()


async def test_a_client_sees_the_close_reconnects_to_the_new_server_and_goes_on() -> None:
    port, codes = free_port(), []
    client = AsyncOpenAI(api_key="unused", base_url=f"http://127.0.0.1:{port}/v1")
    async with (
        serving(port) as first,
        client.realtime.connect(model="m", on_reconnecting=lambda why: codes.append(why.close_code)) as it,
    ):
        await ask(it, "Tell me a long story about the sea.")
        await listen(it, "response.output_audio.delta", Heard())
        first.kill()
        async with serving(port):
            await listen(it, "session.created", Heard())
            await ask(it, "What is the capital of France?")
            heard = await listen(it, "response.done", Heard())
    assert codes == [1006]  # nobody said goodbye
    assert heard.responses[0].status == "completed"
    assert heard.audio_bytes > 24_000
