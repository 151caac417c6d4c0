"""The table of a machine's limits: its arithmetic, its rows, and what it says of what could not be measured."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from clients.beside import beside
from clients.cli import main
from clients.machine import command, rows, stock
from clients.machine.bandwidth import Reading, _sum
from clients.machine.command import Bench
from clients.machine.ears import live_updates
from clients.machine.figures import Goal, Row, Skipped, exactly, interleaved, p99_ms
from clients.machine.pipeline import lags_s, overheads_s
from clients.machine.report import as_json, render, write_json
from clients.machine.served import Outside
from clients.options import as_arguments
from clients.recordings import Recording
from pipeline.config import Config
from pipeline.ports import InputError, StageError
from pipeline.store import Store
from tests.clients.scripted import tone
from tests.pipeline.conversation import SCALE, Say, ScriptedRecogniser
from tests.server.scripted import scripted_server

INT8 = rows.Weights(bytes=100_000_000, form="int8", reader="one core")


def options(**given: Any) -> argparse.Namespace:
    defaults = {"asr": None, "llm": None, "voice": None, "speech": None, "config": None, "set": []}
    return argparse.Namespace(**{**defaults, "device": "cpu", "rounds": 1, "json": None, **given})


def shown(*told: Row, skipped: tuple[Skipped, ...] = ()) -> str:
    console = Console(record=True, width=160)
    console.print(render(told, skipped))
    return console.export_text()


# --- arithmetic ---


def test_a_token_is_held_against_the_time_that_its_weights_take_to_read() -> None:
    """100 MB at 10 GB/s are 10 ms; a step of 16 is 62.5 % of that limit, and 2.5 times stock's 40."""
    limit, against_stock = rows.decode([0.016, 0.020, 0.015], [0.040], INT8, [10e9, 11e9, 9e9])
    assert limit.limit is not None
    assert limit.limit.value == pytest.approx(10)
    assert limit.ratio is not None
    assert limit.ratio.value == pytest.approx(62.5)
    assert against_stock.ratio is not None
    assert against_stock.ratio.value == pytest.approx(2.5)
    assert (limit.met, against_stock.met) == (True, False)


def test_sessions_at_once_are_held_against_one() -> None:
    row = rows.batch([240.0, 200.0, 260.0], [60.0], sessions=8)
    assert row.ratio is not None
    assert (row.ratio.value, row.met) == (4.0, True)


def test_the_first_token_is_counted_in_steps() -> None:
    row = rows.first_token([0.045], [0.015])
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(3)
    assert row.ratio.unit == "steps"


def test_the_codecs_cost_a_token_is_a_share_and_segments_are_counted_apart() -> None:
    share, segments = rows.codec([0.004, 0.002, 0.030], [0.0003])
    assert (share.measured.value, share.met) == (pytest.approx(0.4), True)
    assert segments.measured.value == pytest.approx(0.3)


def test_an_update_is_a_share_of_its_tick_on_average() -> None:
    share, over_least = rows.updates([0.030, 0.070], [0.025, 0.025], window_s=4, tick_ms=200)
    assert share.ratio is not None
    assert over_least.ratio is not None
    assert (share.ratio.value, share.met) == (pytest.approx(25), True)
    assert over_least.ratio.value == pytest.approx(2)


def test_what_a_session_adds_is_held_against_its_buffers() -> None:
    empty, first, further = rows.memory(900_000_000, [50_000_000, 12_000_000, 14_000_000], 450_000_000, 12_000_000)
    assert empty.ratio is not None
    assert empty.ratio.value == 2
    assert first.measured.value == 50
    assert further.measured.value == 13
    assert further.limit == exactly(12, "MB")


def test_a_p99_is_told_with_its_median() -> None:
    figure = p99_ms([0.001] * 99 + [0.1])
    assert figure.value > 1
    assert figure.best == pytest.approx(1)


@pytest.mark.parametrize(("value", "at_least", "met"), [(3, True, True), (2, True, False), (3, False, True)])
def test_a_goal_has_two_sides(value: float, at_least: bool, met: bool) -> None:
    assert Goal(3, "x", at_least).met(value) is met


def test_a_goal_in_the_figures_unit_is_of_the_figure_whatever_the_ratio() -> None:
    row = rows.start([4.0], [0.1])
    assert (row.measured.unit, row.met) == ("s", True)


async def test_rounds_take_turns_and_the_first_only_warms_up() -> None:
    order: list[str] = []

    def going(name: str) -> Any:
        async def go() -> float:
            order.append(name)
            return float(len(order))

        return go

    measured = await interleaved({"a": going("a"), "b": going("b")}, rounds=2)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert measured == {"a": [4.0, 5.0], "b": [3.0, 6.0]}


def test_every_byte_is_read() -> None:
    words = np.arange(64, dtype=np.int64)
    assert _sum(words) == words.sum()
    reading = Reading(1_000_000)
    assert reading.bytes >= 1_000_000
    assert reading.one_core() > 0
    assert reading.all_cores() > 0


# --- what is told ---


def test_the_table_names_the_limit_and_how_it_was_measured() -> None:
    text = shown(*rows.decode([0.016], [0.040], INT8, [10e9]))
    assert "62.5 %" in text
    assert ">= 50 %" in text
    assert "100 MB of int8 weights read once by one core" in " ".join(text.split())


def test_every_goal_of_the_table_has_a_row() -> None:
    outside = Outside([4.0], [0.1], 0.001, 0.01, 0.015, 900_000_000, [50_000_000, 12_000_000], 450_000_000)
    told = [
        *rows.decode([0.016], [0.050], INT8, [10e9]),
        rows.batch([240.0], [60.0], 8),
        rows.first_token([0.03], [0.015]),
        *rows.updates([0.03], [0.02], 4, 200),
        rows.final([0.05], [0.04], 3),
        *rows.codec([0.005], [0.0003]),
        rows.loop_lag([0.001, 0.002], 4),
        rows.overhead([0.004]),
        *rows.outside(outside, 12_000_000, 900),
    ]
    assert [row.what for row in told if row.goal is None] == [
        "recognition, update",
        "segments, a token",
        "memory, no session",
        "memory, first session",
        "memory, each further session",
    ]
    assert all(row.met for row in told if row.goal is not None)


def test_the_report_is_read_back_with_its_verdicts(tmp_path: Path) -> None:
    told = [rows.overhead([0.004]), rows.overhead([0.006])]
    write_json(told, [Skipped("a GPU", "none")], tmp_path / "deep" / "machine.json")
    report = json.loads((tmp_path / "deep" / "machine.json").read_text())
    assert report == as_json(told, [Skipped("a GPU", "none")])
    assert [row["met"] for row in report["rows"]] == [True, False]
    assert report["machine"]["cores"] >= 1


def test_a_report_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the report"):
        write_json([], [], tmp_path / "file" / "machine.json")


def test_without_a_gpu_it_says_so_and_measures_the_processor(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock, "why_no_gpu", lambda: "torch sees no CUDA device")
    bench = Bench(options(device="cuda"), store)
    assert bench._config.llm.device == "cpu"
    text = shown(rows.overhead([0.004]), skipped=tuple(bench.skipped))
    assert "not measured: every row on cuda: torch sees no CUDA device; the rows above are the processor's" in text


def test_with_a_gpu_the_language_model_is_measured_on_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock, "why_no_gpu", lambda: None)
    bench = Bench(options(device="cuda"), store)
    assert bench._config.llm.device == "cuda"
    assert not bench.skipped


@pytest.mark.skipif(stock.why_no_gpu() is not None, reason=f"needs a GPU: {stock.why_no_gpu()}")
def test_the_gpus_memory_is_read() -> None:
    assert stock.GpuReading(1_000_000).bytes_per_s() > 0


def test_a_model_elsewhere_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="runs elsewhere"):
        Bench(options(llm="openai:http://127.0.0.1:1/v1#any"), store)


def test_no_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "machine", "--rounds", "0"]) == 2
    assert "--rounds" in capsys.readouterr().err


def test_a_server_of_its_own_gets_the_same_options() -> None:
    args = options(llm="somewhere", set=["llm.max_tokens=9", "turn.drafts=false"])
    assert as_arguments(args) == ["--llm", "somewhere", "--set", "llm.max_tokens=9", "--set", "turn.drafts=false"]


# --- what is measured ---


@pytest.mark.looptime(start=0)
async def test_updates_are_asked_for_as_the_sound_comes() -> None:
    sound = np.arange(32_000, dtype=np.float32) / SCALE
    updates = await live_updates(ScriptedRecogniser([Say(0.0, 2.0, "one two")], 0.08), sound, tick_ms=200)
    lengths = [len(update.sound) for update in updates]
    assert len(lengths) == 8
    assert lengths == sorted(set(lengths))


async def test_the_pipeline_is_timed_from_the_pause_to_the_first_sound() -> None:
    (took_s,) = await overheads_s(Config(), turns=1)
    assert 0 < took_s < Config().turn.longest_wait_ms / 1000


async def test_the_loops_lag_is_noted_while_users_talk() -> None:
    async with scripted_server() as server:
        spoken = Recording(Path("tone"), tone(0.1), 24_000, speech_end_s=0.1)
        lags = await lags_s(server, [spoken], sessions=1)
    assert len(lags) > 10
    assert min(lags) >= 0


@pytest.mark.models
def test_one_round_of_everything(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "STARTS", 1)
    monkeypatch.setattr(command, "TALKERS", 1)
    monkeypatch.setattr(command, "TURNS", 1)
    monkeypatch.setattr(command, "SESSIONS", 2)
    monkeypatch.setattr(command, "PASSAGES", command.PASSAGES[:1])
    assert main(["bench", "machine", "--rounds", "1", "--json", str(tmp_path / "machine.json")]) == 0
    report = json.loads((tmp_path / "machine.json").read_text())
    assert {"decode, batch 1: of the limit", "start to ready"} <= {row["what"] for row in report["rows"]}
    assert "Against the limits of this machine" in capsys.readouterr().out


async def test_work_beside_a_measurement_ends_with_it_and_its_failure_is_not_lost() -> None:
    async def fail() -> None:
        raise StageError("speech recognition", "gone")

    async with beside(asyncio.sleep(60)):
        pass
    with pytest.raises(StageError, match="gone"):
        async with beside(fail()):
            await asyncio.sleep(0)
