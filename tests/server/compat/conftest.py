"""A server on the real models, and published clients as processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.backends.loader import Models
from pipeline.config import Config
from server.app import Server
from server.voices.hibari import HibariVoice

HERE = Path(__file__).parent
# Some of these clients need other versions of what Echoic runs on, so they live in an environment of their own.
PYTHON = Path(os.environ.get("ECHOIC_COMPAT_PYTHON", HERE.parents[2] / ".venv-compat/bin/python"))
PATIENCE_S = 100.0


@pytest.fixture
async def server(models: Models, voice: HibariVoice) -> AsyncIterator[Server]:
    async with Server(Config(), models=models, voice=voice) as running:
        yield running


async def run_client(command: list[str | Path], **environment: str) -> dict[str, Any]:
    """What the client reports of its conversation."""
    client = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            out, errors = await client.communicate()
    finally:
        if client.returncode is None:
            client.kill()
            await client.wait()
    assert client.returncode == 0, errors.decode()[-3000:]
    report: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    return report


def needs_python() -> None:
    """Skip where the clients' own environment was not made."""
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} is missing: `make compat` makes it")


def needs_node() -> str:
    """The path of node; skip where it or the packages are missing."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (HERE / "js/node_modules").exists():
        pytest.skip("the npm packages are missing: `make compat` installs them")
    return node


def words(text: str) -> str:
    """Lower case, without punctuation."""
    return " ".join(re.findall(r"[a-z]+", text.lower()))


def check_heard_and_interrupted(report: dict[str, Any]) -> None:
    """Both readings were understood, the first was answered aloud, and the second interrupted the answer."""
    assert "best of times" in words(report["transcripts"][0])
    assert "tried" in words(report["transcripts"][-1])
    assert report["audio_bytes"] > 24_000
    assert report["interruptions"] >= 1
