"""Tokens a second of a scripted model, in virtual time."""

from __future__ import annotations

import pytest
from rich.console import Console

from clients.decode_bench import BatchSpeed, measure_batches, render_speeds
from tests.pipeline.conversation import ScriptedModel


@pytest.mark.looptime
async def test_tokens_of_all_conversations_count() -> None:
    speeds = await measure_batches(ScriptedModel("once upon a time", 0.02), (1, 4), tokens=3, rounds=2)
    assert [(each.sessions, round(each.best), round(each.median)) for each in speeds] == [
        (1, 50, 50),
        (4, 200, 200),
    ]


def test_the_table_says_how_many_times_one_conversations_it_is() -> None:
    console = Console(width=80, record=True)
    console.print(render_speeds([BatchSpeed(1, 50, 40), BatchSpeed(8, 225, 200)]))
    assert "4.50" in (text := console.export_text())
    assert "5.00" in text
