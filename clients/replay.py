"""``echoic replay``: recordings in, spoken in real time; latency, accuracy and conduct out."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from clients import waterfall
from clients.accuracy import CutOff
from clients.baseline import compare, render_changes
from clients.bench import open_embedded, open_remote, recognise_offline, replay_interleaved
from clients.options import add_model_options, config_from
from clients.realtime import realtime_url
from clients.recordings import Recording, Rejected, read_recordings
from clients.report import SEQUENTIAL, Report, read_json, render, write_json
from clients.summary import Outcome
from pipeline.ports import InputError

_DRAFTS = {"on": (True,), "off": (False,), "both": (True, False)}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "replay",
        help="speak recordings to the assistant and measure its answers",
        description="Speaks recordings to the assistant in real time over its WebSocket, and reports how fast and "
        "how well it answered. Transcripts and speech times come from a manifest.jsonl in the folder, or a .txt "
        "file beside a recording.",
    )
    parser.add_argument("places", nargs="+", type=Path, metavar="FILE|DIR", help="recordings, or folders of them")
    parser.add_argument("--url", help="a Realtime server, ws://...; without it one is started in this process")
    parser.add_argument("--key", default="local", help="the API key for --url")
    parser.add_argument("--pace", type=float, default=1.0, help="speak faster than life; for trials only")
    parser.add_argument("--category", action="append", metavar="C", help="only recordings of this category")
    parser.add_argument("--drafts", choices=tuple(_DRAFTS), help="answer ahead of turn ends, or not, or compare")
    parser.add_argument("--compare", choices=(SEQUENTIAL,), help="run the naive assistant too, clip by clip")
    parser.add_argument("--offline-wer", action="store_true", help="recognise the whole recordings as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw where the time of each turn went (PNG)")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="an earlier --json to compare with")
    parser.add_argument("--max-ratio", type=float, default=1.25, help="slower than the baseline by this fails")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Replay and report; 0 if all is well, 1 for a failed clip or check, 2 for input that cannot be used."""
    console = Console(highlight=False)
    _check_options(args)
    old = read_json(args.baseline) if args.baseline else None
    recordings, rejected = _sort_out(read_recordings(args.places), args.category)
    for each in rejected:
        print(f"echoic: skipped {each.reason}", file=sys.stderr)
    if not recordings:
        raise InputError("there is nothing to replay")
    report = asyncio.run(_replay(args, recordings, console))
    agreement = report.agreement()
    console.print(render(report))
    if args.json:
        write_json(report, args.json)
    if args.plot:
        waterfall.draw(report.outcomes, args.plot)
    failed = [
        any(outcome.result.problems for outcomes in report.outcomes.values() for outcome in outcomes),
        bool(agreement and agreement.different),
        old is not None and _tell_changes(old, report, args.max_ratio, console),
    ]
    return 2 if rejected else int(any(failed))


def _check_options(args: argparse.Namespace) -> None:
    if args.pace <= 0:
        raise InputError(f"--pace {args.pace:g}: expected more than 0")
    if args.url:
        realtime_url(args.url)  # raises for one that cannot be used, before anything is read
    needs_models = args.compare or args.offline_wer or args.drafts
    if args.url and needs_models:
        raise InputError("--compare, --offline-wer and --drafts need the models in this process: leave out --url")


def _sort_out(
    found: Iterable[Recording | Rejected], categories: Sequence[str] | None
) -> tuple[list[Recording], list[Rejected]]:
    recordings, rejected = [], []
    for each in found:
        if isinstance(each, Rejected):
            rejected.append(each)
        elif not categories or set(categories) & set(each.category):
            recordings.append(each)
    return recordings, rejected


async def _replay(args: argparse.Namespace, recordings: Sequence[Recording], console: Console) -> Report:
    def progress(variant: str, outcome: Outcome) -> None:
        console.print(_line(variant, outcome), soft_wrap=True)

    if args.url:
        variants = open_remote(args.url, key=args.key, pace=args.pace)
        outcomes = await replay_interleaved(recordings, variants, progress)
        return Report({"url": args.url, "pace": args.pace}, outcomes)
    config = config_from(args)
    drafts = _DRAFTS[args.drafts] if args.drafts else (config.turn.drafts,)
    async with AsyncExitStack() as stack:
        with console.status("loading models"):
            bench = open_embedded(config, drafts, pace=args.pace, sequential=bool(args.compare))
            variants, models = await stack.enter_async_context(bench)
        outcomes = await replay_interleaved(recordings, variants, progress)
        offline = await recognise_offline(recordings, models) if args.offline_wer else ()
    chosen = {"asr": config.asr.model, "llm": config.llm.model, "voice": config.speech.voice}
    return Report({"pace": args.pace, "cores": os.cpu_count(), **chosen}, outcomes, offline)


def _line(variant: str, outcome: Outcome) -> str:
    """One outcome as one line: what was heard and answered, and how fast."""
    result = outcome.result
    if result.problems:
        verdict = f"[red]{escape('; '.join(result.problems))}[/]"
    elif result.answer:
        verdict = f"[green]{(result.answer.voice_to_voice_ms or 0) / 1000:.2f} s[/]"
    else:
        verdict = "[dim]no reply[/]" if not result.replied else "[yellow]replied[/]"
    if result.cut_off is not CutOff.NONE:
        verdict += " [yellow]cut off[/]"
    said = " / ".join(turn.reply.strip() for turn in result.turns if turn.reply)
    heard = escape(result.heard) or "-"
    return (
        f"[bold]{escape(outcome.recording.name)}[/] [dim]{variant}[/]  {verdict}  {heard} [dim]→ {escape(said)}[/]"
    )


def _tell_changes(old: dict[str, object], report: Report, max_ratio: float, console: Console) -> bool:
    changes = compare(old, report.summaries())
    console.print(render_changes(changes, max_ratio))
    return any(change.exceeds(max_ratio) for change in changes)
