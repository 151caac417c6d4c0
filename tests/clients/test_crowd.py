"""Ever more users at once, against a scripted server."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from clients.crowd import Level, find_limit, measure_level, plot_levels, render_levels
from clients.recordings import Recording
from clients.summary import Spread
from tests.clients.scripted import Script, scripted_server, tone


def question() -> Recording:
    return Recording(Path("question.wav"), tone(0.3), 24_000, "hello", speech_end_s=0.3)


def level(sessions: int, p95_ms: float, answered: int = 4) -> Level:
    return Level(sessions, 4, Spread(answered, p95_ms / 2, p95_ms), (), 0.55)


async def test_every_user_asks_in_sessions_of_their_own_and_every_answer_counts() -> None:
    script = Script()
    async with scripted_server(script) as url:
        measured = await measure_level([question()], url, lambda: 0.7, sessions=2, turns=2)
    assert (measured.sessions, measured.asked, measured.share, measured.problems) == (2, 4, 0.7, ())
    assert measured.voice_to_voice is not None
    assert measured.voice_to_voice.count == len(script.sessions) == 4


async def test_the_search_ends_with_the_first_level_that_is_too_slow() -> None:
    async with scripted_server(Script()) as url:
        levels = [each async for each in find_limit([question()], url, lambda: 0.0, most=5, turns=1, limit_ms=0.0)]
    assert [each.sessions for each in levels] == [1]


@pytest.mark.parametrize(("p95_ms", "answered", "holds"), [(999, 4, True), (1_001, 4, False), (500, 3, False)])
def test_a_level_holds_when_everybody_is_answered_in_time(p95_ms: float, answered: int, holds: bool) -> None:
    assert level(2, p95_ms, answered).holds(1_000) is holds


def test_the_curve_is_drawn_and_the_table_has_a_row_a_level(tmp_path: Path) -> None:
    levels = [level(1, 600), level(2, 1_400)]
    plot_levels(levels, 1_000, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5_000
    console = Console(record=True, width=100)
    console.print(render_levels(levels, 1_000))
    text = console.export_text()
    assert "1400" in text
    assert "55%" in text
