"""JavaScript clients as they are published, in Node: a reading, an interruption, their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.app import Server
from tests.server.compat.conftest import HERE, check_heard_and_interrupted, needs_node, run_client, words

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]


async def conversation(client: str, server: Server, readings: list[Path], *options: str) -> dict[str, Any]:
    return await run_client([needs_node(), *options, HERE / "js/in_node.mjs", client, server.url, *readings])


@pytest.mark.parametrize("client", ["openai_ws", "agents_realtime"])
async def test_a_reading_is_heard_answered_interrupted_and_the_interruption_answered(
    client: str, server: Server, readings: list[Path]
) -> None:
    report = await conversation(client, server, readings)
    check_heard_and_interrupted(report)
    assert words(report["replies"][-1])
    assert not report["errors"]


async def test_the_build_for_react_native_is_let_in_by_subprotocol_and_does_the_same(
    server: Server, readings: list[Path]
) -> None:
    report = await conversation("agents_realtime", server, readings, "--conditions=react-native")
    assert report["build"].endswith("shims-react-native.mjs")
    check_heard_and_interrupted(report)
    assert words(report["replies"][-1])
    assert not report["errors"]
