"""``echoic bench echo``: does it hear itself, and somebody who speaks over it? With a clock, and without one."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from audio.echo import Canceller, WebRtcCanceller
from clients.double_talk import STORIES, Rehearsal, Scene, rehearse, render_rehearsals
from clients.echo_bench import Outcome, Setting, human_remark, render_echo, run_trial
from clients.interruptions import Remark, remark_from
from clients.options import add_model_options, config_from
from clients.realtime import RATE_HZ
from clients.recordings import usable
from pipeline.config import Config
from pipeline.interruption import Interruption
from pipeline.ports import InputError
from pipeline.store import Store


def add_parser(checks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the check to argparse."""
    parser = checks.add_parser(
        "echo",
        help="does it hear itself, in simulated rooms?",
        description="Plays its own replies into its microphone, in rooms of several loudnesses and delays and in "
        "real time: nothing of them is to be taken for speech. Then a human voice speaks over it.",
    )
    parser.add_argument("--replies", type=int, default=10, help="that nobody speaks over, a room (10)")
    parser.add_argument("--interruptions", type=int, default=3, help="and replies that somebody does (3)")
    parser.add_argument("--levels", type=float, nargs="+", default=[0.0, -6.0, -12.0], metavar="DB")
    parser.add_argument("--delays", type=float, nargs="+", default=[20.0, 200.0], metavar="MS")
    parser.add_argument("--no-echo-cancellation", action="store_true", help="what the words alone keep out")
    parser.add_argument(
        "--offline",
        type=Path,
        nargs="*",
        metavar="FILE|DIR",
        help="without a clock, whatever the machine's speed; these recordings speak over it",
    )
    parser.add_argument(
        "--remarks",
        type=float,
        nargs="+",
        default=[6.0, 0.0, -6.0],
        metavar="DB",
        help="how loud they are (6 0 -6)",
    )
    add_model_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Check and tell; 1 if it heard itself, or did not hear somebody else."""
    settings = [Setting(level, delay) for level in args.levels for delay in args.delays]
    config = config_from(args)
    if args.offline is not None:
        rehearsals = asyncio.run(_rehearse(args, config, settings, console))
        console.print(render_rehearsals(rehearsals))
        return int(any(rehearsal.fault for rehearsal in rehearsals))
    outcomes = asyncio.run(_echo(args, config, settings, console))
    console.print(render_echo(outcomes))
    return int(any(outcome.fault for outcome in outcomes))


async def _echo(
    args: argparse.Namespace, config: Config, settings: Sequence[Setting], console: Console
) -> list[Outcome]:
    from server.app import Server

    outcomes = []
    store = Store.default(os.environ)
    async with Server(config, store=store) as server:
        for setting in settings:
            with console.status(_named(setting)):
                outcomes.append(
                    await run_trial(
                        setting,
                        server.realtime_url,
                        _canceller(args),
                        human_remark(store),
                        replies=args.replies,
                        interruptions=args.interruptions,
                    )
                )
    return outcomes


async def _rehearse(
    args: argparse.Namespace, config: Config, settings: Sequence[Setting], console: Console
) -> list[Rehearsal]:
    from server.app import Server

    store = Store.default(os.environ)
    remarks = _remarks(args.offline, store)
    rehearsals = []
    async with Server(config, store=store) as server:
        stories = [await server.voice.speak(story) for story in STORIES]
        models = server.models

        def scene(setting: Setting) -> Scene:
            return Scene(setting, _canceller(args), models.vad.open(), models.recogniser, config)

        for setting in settings:
            with console.status(_named(setting)):
                alone = [stories[number % len(stories)] for number in range(args.replies)]
                rehearsals.append(await rehearse(setting, scene, alone, stories, remarks, args.remarks))
    return rehearsals


def _remarks(places: Sequence[Path], store: Store) -> list[Remark]:
    """Words over a reply: those of the recordings, or those of a reader."""
    said = [remark for recording in usable(places, None) if (remark := remark_from(recording))]
    words = [remark for remark in said if remark.kind is Interruption.WORDS]
    if places and not words:
        raise InputError("none of the recordings has a transcript and a speech_start_s in a manifest.jsonl")
    return words or [human_remark(store)]


def _canceller(args: argparse.Namespace) -> Canceller | None:
    return None if args.no_echo_cancellation else WebRtcCanceller(RATE_HZ)


def _named(setting: Setting) -> str:
    return f"an echo of {setting.gain_db:g} dB after {setting.delay_ms:g} ms"
