"""What a talk looks like, on a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from clients.loudspeaker import Turn
from clients.memory import MEMORY_EVENT
from clients.microphone import SILENT_DB, Gate
from clients.realtime import ServerEvent
from clients.terminal import METER_WIDTH, LiveScreen, PlainScreen, bar, meter, render_view
from clients.view import Line, View


def drawn(view: View) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(render_view(view))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_words_that_may_change_are_dim() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(render_view(View(Gate(), user_speaking=True, stable="what is the", unstable="capital")))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "what is the \x1b[2mcapital\x1b[0m" in shown


def test_words_that_were_said_are_highlighted() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(render_view(View(Gate(), said="Paris is", unsaid=" in France.")))
    assert "\x1b[1;32mParis is \x1b[0m\x1b[2min France.\x1b[0m" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("view", "state"),
    [
        (View(Gate()), "● listening"),
        (View(Gate(), user_speaking=True), "● hearing you"),
        (View(Gate(), said="Well"), "● speaking"),
        (View(Gate(muted=True), said="Well"), "● muted"),
        (View(Gate(push_to_talk=True)), "○ push-to-talk"),
        (View(Gate(push_to_talk=True, talking=True)), "● listening"),
    ],
)
def test_the_head_says_how_things_stand(view: View, state: str) -> None:
    assert state in drawn(view)


def test_gaps_and_lost_sound_are_counted_in_view() -> None:
    assert "2 gaps · 1 overruns · 3 underruns" in drawn(View(Gate(), gaps=2, overruns=1, underruns=3))


def test_a_turns_bar_is_as_long_as_its_parts_and_explained() -> None:
    turn = Turn(900, {"pause_seen": 120, "first_token": 600, "first_audible": 180})
    assert bar(turn, 30).plain == "▆" * (4 + 20 + 6)
    shown = drawn(View(Gate(), turns=[turn]))
    assert "0.90 s" in shown
    assert "first token" in shown
    assert "receive it" not in shown


@pytest.mark.parametrize("level_db", [SILENT_DB - 10, SILENT_DB, -33.3, -1.0, 0.0, 6.0])
def test_a_meter_is_never_longer_than_its_place(level_db: float) -> None:
    assert meter(level_db).plain.index(" ") == METER_WIDTH


def test_a_pipe_gets_final_lines_only() -> None:
    console = Console(file=io.StringIO(), width=20)
    with PlainScreen(console) as screen:
        screen.update(View(Gate(), said="not this"))
        screen.add(Line("you", "a line that is much longer than the width of the console"))
        screen.add(Line("echoic", "Paris is", "in France."))
        screen.add(Line("", "the microphone has gone"))
    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "you: a line that is much longer than the width of the console",
        "echoic: Paris is [not heard: in France.]",
        "(the microphone has gone)",
    ]


def test_final_lines_stay_above_the_live_part() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with LiveScreen(console) as screen:
        screen.update(View(Gate()))
        screen.add(Line("you", "how are you"))
    assert "how are you" in console.file.getvalue()  # type: ignore[attr-defined]


def remembering(weights: list[float], left_s: float, *, fading: bool) -> View:
    view = View(Gate(), memory_left_s=left_s)
    view.memory.push(ServerEvent(MEMORY_EVENT, {"weights": weights, "left_s": left_s, "fading": fading}, 0.0))
    return view


def test_the_memorys_segments_are_as_long_as_they_count_and_their_time_runs_down() -> None:
    view = remembering([0.49, 0.7, 1.0], 2.4, fading=True)
    assert "██████████ ███████ █████  gone in 2.4 s" in drawn(view)
    assert "held while somebody speaks" in drawn(remembering([1.0], 3.0, fading=False))
    assert "memory" not in drawn(View(Gate()))


def test_the_expiry_runs_down_while_nobody_is_heard_and_only_then() -> None:
    fading, held = remembering([1.0], 2.5, fading=True).memory, remembering([1.0], 3.0, fading=False).memory
    assert [fading.left_s(now) for now in (0.0, 1.0, 9.0)] == [2.5, 1.5, 0.0]
    assert held.left_s(9.0) == 3.0


def test_a_broken_connection_is_shown() -> None:
    assert "connection lost" in drawn(View(Gate(), away=True))


@pytest.mark.parametrize(
    ("asked", "told"),
    [(False, []), (True, ["(echoic memory: 2 of the last speech segments)", "(echoic memory: gone)"])],
)
def test_a_pipe_is_told_of_the_memory_only_where_it_asked(asked: bool, told: list[str]) -> None:
    console = Console(file=io.StringIO(), width=100)
    with PlainScreen(console, memory=asked) as screen:
        for view in (View(Gate()), *[remembering([0.7, 1.0], 3.0, fading=False)] * 2, View(Gate())):
            screen.update(view)
    assert console.file.getvalue().splitlines() == told  # type: ignore[attr-defined]
