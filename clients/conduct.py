"""``echoic bench``: how it behaves when somebody speaks over it, when nobody speaks, and on this machine."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from audio.resample import resample
from clients import decode_bench, echo, followups
from clients.accuracy import word_errors
from clients.crowd import Level, find_limit, plot_levels, render_levels
from clients.hearing import first_audible
from clients.interruptions import Remark, SpokenOver, hear_out, noticed, remark_from, speak_over
from clients.machine import command as machine
from clients.options import add_model_options, config_from
from clients.quiet import Heard, listen, render_quiet, total
from clients.recordings import Recording, usable
from clients.sounds import Sound, without_speech
from clients.summary import spread
from clients.tables import titled
from pipeline.config import Config
from pipeline.interruption import Interruption, classify
from pipeline.ports import RATE_HZ, InputError, Voice

PHRASES = ("What is the capital of France?", "Stop.", "Uh-huh.")
LAST_VOICE = "a voice"
LABELS = {
    Interruption.WORDS: "words",
    Interruption.STOP: "“stop”",
    Interruption.BACKCHANNEL: "backchannel",
    Interruption.NOTHING: "noise",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "bench", help="check its conduct: spoken over, and in a room where nobody speaks"
    )
    checks = parser.add_subparsers(dest="check", required=True, metavar="CHECK")
    over = checks.add_parser(
        "interruptions",
        help="speak over replies and measure how soon they are silent",
        description="Asks for a long reply, speaks each recording over it in real time, and measures at the "
        "client how soon the reply is silent, or that it goes on where it should. A recording needs a "
        "manifest.jsonl that says what is said in it, and when; without recordings the built-in voice speaks.",
    )
    over.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    quiet = checks.add_parser(
        "quiet",
        help="an hour of silence, noise and music, as fast as the models go",
        description="Lets a whole session hear silence, noise and music, generated and from those recordings "
        'whose transcript is "", and counts the words it makes of them. A voice speaks at the end: is it heard?',
    )
    quiet.add_argument("--minutes", type=float, default=60.0, help="how much sound (60)")
    many = checks.add_parser(
        "sessions",
        help="how many conversations at once are answered in time",
        description="Lets ever more users ask questions at once, in real time, until one in twenty answers takes "
        "longer than the limit, and tells how many conversations this machine holds. A recording needs a "
        "manifest.jsonl that says where its speech ends; without recordings the built-in voice asks.",
    )
    many.add_argument("--most", type=int, default=8, metavar="N", help="conversations to try (8)")
    many.add_argument("--turns", type=int, default=4, metavar="N", help="questions that each user asks (4)")
    many.add_argument("--limit-ms", type=float, default=1_000, metavar="MS", help="voice to voice, p95 (1000)")
    many.add_argument("--plot", type=Path, metavar="FILE", help="draw the curve")
    echo.add_parser(checks)
    decode_bench.add_parser(checks)
    followups.add_parser(checks)
    machine.add_parser(checks)
    for check in (over, quiet, many):
        check.add_argument(
            "places", nargs="*", type=Path, metavar="FILE|DIR", help="recordings, or folders of them"
        )
        check.add_argument("--category", action="append", metavar="C", help="only recordings of this category")
        add_model_options(check)


def run(args: argparse.Namespace) -> int:
    """Check and tell; 0 if all is as it should be, 1 if not, 2 for input that cannot be used."""
    console, config = Console(highlight=False), config_from(args)
    if args.check == "echo":
        return echo.run(args, console)
    if args.check == "decode":
        return decode_bench.run(args, config, console)
    if args.check == "followups":
        return followups.run(args, console)
    if args.check == "machine":
        return machine.run(args, console)
    recordings = list(usable(args.places, args.category))
    if args.check == "interruptions":
        return _run_interruptions(args, config, recordings, console)
    if args.check == "sessions":
        return _run_sessions(args, config, recordings, console)
    return _run_quiet(args, config, recordings, console)


# --- spoken over ---


def _run_interruptions(
    args: argparse.Namespace, config: Config, recordings: Sequence[Recording], console: Console
) -> int:
    remarks = [remark for recording in recordings if (remark := remark_from(recording))]
    if args.places and not remarks:
        raise InputError("none of the recordings has a transcript and a speech_start_s in a manifest.jsonl")
    results = asyncio.run(_interrupt(config, remarks, console))
    console.print(render_interruptions(results))
    if args.json:
        write_interruptions(results, args.json)
    return int(any(result.fault for result in results))


async def _interrupt(config: Config, remarks: Sequence[Remark], console: Console) -> list[SpokenOver]:
    from server.app import Server

    results = []
    async with Server(config) as server:
        undisturbed = await hear_out(server.realtime_url)
        for remark in remarks or [await phrase(text, server.voice) for text in PHRASES]:
            ear, threshold = server.models.vad.open(), config.listen.start_probability
            heard = await noticed(remark, ear, threshold)
            results.append(await speak_over(heard, server.realtime_url, undisturbed))
            console.print(_line(results[-1]), soft_wrap=True)
    return results


async def phrase(text: str, voice: Voice) -> Remark:
    """A phrase in the built-in voice, as a remark."""
    speech = await voice.speak(text)
    onset = first_audible(speech.samples) or 0
    return Remark(text, speech.samples, onset / speech.rate_hz, classify(text))


def _line(result: SpokenOver) -> str:
    silent = (
        f"silent after {result.silent_after_ms:.0f} ms" if result.silent_after_ms is not None else result.status
    )
    verdict = f"[yellow]{escape(result.fault)}[/]" if result.fault else "[green]well[/]"
    return (
        f"[bold]{escape(result.remark)}[/] [dim]{LABELS[result.kind]}[/]  {silent}  {verdict}  "
        f"[dim]{escape(result.heard) or '-'}[/]"
    )


def render_interruptions(results: Sequence[SpokenOver]) -> Table:
    """A row for each kind of remark."""
    table = titled(
        "Spoken over",
        "p50, p95, max: ms from the end of the second 32 ms frame that sounds like speech to\n"
        "the last sample of the reply; onset: the p95 from the beginning of the speech.\n"
        "Stale: pieces of the reply that came after. Lost: ms of sound.",
    )
    table.collapse_padding, table.pad_edge = True, False
    table.add_column("remark", no_wrap=True)
    for column in ("said", "cut", "replied", "resumed", "p50", "p95", "max", "onset", "stale", "lost", "bad"):
        table.add_column(column, justify="right", no_wrap=True)
    for kind, label in LABELS.items():
        if alike := [result for result in results if result.kind is kind]:
            table.add_row(label, *_cells(alike))
    return table


def _cells(results: Sequence[SpokenOver]) -> list[str]:
    silences = [result.silent_after_ms for result in results if result.silent_after_ms is not None]
    latency = spread(silences)
    since_onset = spread([result.since_onset_ms for result in results if result.since_onset_ms is not None])
    counts = (
        len(results),
        sum(result.cut for result in results),
        sum(result.answered for result in results),
        sum(result.status == "completed" for result in results),
    )
    times = (latency.p50_ms, latency.p95_ms, max(silences), since_onset.p95_ms) if latency and since_onset else ()
    lost = [result.lost_ms for result in results if result.lost_ms is not None]
    return [
        *map(str, counts),
        *(f"{time:.0f}" for time in times),
        *["-"] * (4 - len(times)),
        str(sum(result.stale_frames for result in results)),
        f"{max(0.0, *lost):.0f}" if lost else "-",
        str(sum(bool(result.fault) for result in results)),
    ]


def write_interruptions(results: Sequence[SpokenOver], path: Path) -> None:
    """Everything that was measured, as JSON; raises InputError where it cannot be written."""
    told = [{**asdict(result), "kind": result.kind.value, "fault": result.fault} for result in results]
    report = {"format": "echoic-interruptions", "version": 1, "remarks": told}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot write the report: {error.strerror}") from error


# --- nobody speaks ---


def _run_quiet(args: argparse.Namespace, config: Config, recordings: Sequence[Recording], console: Console) -> int:
    if args.minutes <= 0:
        raise InputError(f"--minutes {args.minutes:g}: expected more than 0")
    silent = [recording for recording in recordings if recording.silent]
    if recordings and not silent:
        console.print('no recording has the transcript "", so all the sound is generated', style="dim")
    heard = asyncio.run(_hear_nothing(config, silent, args.minutes * 60, console))
    voice = " ".join(heard.pop(LAST_VOICE, Heard()).words)
    console.print(render_quiet(heard))
    for failure in total(heard).failures:
        console.print(escape(failure), style="yellow")
    # An ear that hears nothing at all has no merit: somebody speaks in the end, and is to be heard.
    deaf = word_errors(PHRASES[0], voice).errors > 0
    console.print(
        f"then a voice said “{PHRASES[0]}” and was heard as “{escape(voice)}”", style="yellow" if deaf else ""
    )
    return int(bool(total(heard).words or total(heard).failures or deaf))


async def _hear_nothing(
    config: Config, recordings: Sequence[Recording], seconds: float, console: Console
) -> dict[str, Heard]:
    from server.app import Server

    quiet = without_speech(seconds, [Sound(each.name, each.at(RATE_HZ)) for each in recordings])
    columns = (TextColumn("minutes of sound"), BarColumn(), TextColumn("{task.fields[minutes]:.0f}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bars:
        bar = bars.add_task("", total=seconds, minutes=0)
        async with Server(config) as server:
            speech = await server.voice.speak(PHRASES[0])
            voice = Sound(LAST_VOICE, resample(speech.samples, speech.rate_hz, RATE_HZ))
            return await listen(
                server.new_stages(),
                config,
                chain(quiet, [voice]),
                lambda done_s: bars.update(bar, completed=done_s, minutes=done_s / 60),
            )


# --- many at once ---


def _run_sessions(
    args: argparse.Namespace, config: Config, recordings: Sequence[Recording], console: Console
) -> int:
    if args.most < 1 or args.turns < 1:
        raise InputError("--most and --turns: expected 1 or more")
    asking = [recording for recording in recordings if recording.transcript and recording.speech_end_s]
    if args.places and not asking:
        raise InputError("none of the recordings has a transcript and a speech_end_s in a manifest.jsonl")
    levels = asyncio.run(_crowd(args, config, asking, console))
    console.print(render_levels(levels, args.limit_ms))
    holds = max((level.sessions for level in levels if level.holds(args.limit_ms)), default=0)
    console.print(f"This machine holds {holds} conversations at once with {args.limit_ms:.0f} ms voice to voice.")
    if args.plot:
        plot_levels(levels, args.limit_ms, args.plot)
    return int(holds == 0)


async def _crowd(
    args: argparse.Namespace, config: Config, recordings: Sequence[Recording], console: Console
) -> list[Level]:
    from server.app import Server

    open_door = replace(config.server, max_sessions=args.most, full_share=float("inf"))
    levels = []
    async with Server(replace(config, server=open_door)) as server:
        questions = recordings or [await _question(server.voice)]
        share = server.models.cores.load.share
        options = {"most": args.most, "turns": args.turns, "limit_ms": args.limit_ms}
        async for level in find_limit(questions, server.realtime_url, share, **options):
            levels.append(level)
            for problem in level.problems:
                console.print(f"{level.sessions}: {escape(problem)}", style="yellow")
    return levels


async def _question(voice: Voice) -> Recording:
    speech = await voice.speak(PHRASES[0])
    length_s = len(speech.samples) / speech.rate_hz
    return Recording(Path(LAST_VOICE), speech.samples, speech.rate_hz, PHRASES[0], speech_end_s=length_s)
