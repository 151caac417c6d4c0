"""Python clients as they are published, each in a real conversation: a reading, an interruption, their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.app import Server
from tests.server.compat.conftest import HERE, PYTHON, check_heard_and_interrupted, needs_python, run_client, words

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]


async def conversation(client: str, server: Server, readings: list[Path]) -> dict[str, Any]:
    needs_python()
    return await run_client([PYTHON, HERE / f"python/{client}.py", server.url, *readings])


@pytest.mark.parametrize("client", ["openai_agents", "pipecat_ai", "livekit_agents"])
async def test_a_reading_is_heard_answered_interrupted_and_the_interruption_answered(
    client: str, server: Server, readings: list[Path]
) -> None:
    report = await conversation(client, server, readings)
    check_heard_and_interrupted(report)
    assert words(" ".join(report["replies"]))
    assert not report["errors"]
