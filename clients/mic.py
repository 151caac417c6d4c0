"""``echoic mic``: talk to the machine on the desk."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rich.console import Console
from rich.table import Table

from audio.devices import list_devices
from audio.echo import Canceller, WebRtcCanceller
from audio.soundcard import SoundCard, choose_both, open_card
from clients import models
from clients.keys import TalkKey, key_presses
from clients.microphone import Gate
from clients.opening import open_server
from clients.options import add_model_options, config_from
from clients.realtime import RATE_HZ
from clients.resuming import connect_resuming
from clients.talk import OpenEnds, Talk
from clients.terminal import LiveScreen, PlainScreen
from pipeline.store import Store


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "mic",
        help="talk to it with your microphone",
        description="Talks through this machine's microphone and loudspeaker, to an assistant in this process or "
        "to a Realtime server elsewhere. Speak over it whenever you like.",
    )
    parser.add_argument("--list-devices", action="store_true", help="show the microphones and loudspeakers")
    parser.add_argument("--input", metavar="DEVICE", help="the microphone: an index, a name or part of one")
    parser.add_argument("--output", metavar="DEVICE", help="the loudspeaker: an index, a name or part of one")
    parser.add_argument("--url", help="a Realtime server, ws://...; without one it runs in this process")
    parser.add_argument("--key", default="local", help="the server's API key")
    parser.add_argument("--push-to-talk", action="store_true", help="hear nothing unless the space bar is pressed")
    parser.add_argument(
        "--half-duplex", action="store_true", help="hear nothing while it speaks: no interrupting, no echo"
    )
    parser.add_argument(
        "--no-echo-cancellation", action="store_true", help="for headphones, or a system that cancels by itself"
    )
    parser.add_argument("--plain", action="store_true", help="only final lines: for pipes and screen readers")
    parser.add_argument(
        "--show-memory", action="store_true", help="with --plain, a line when the echoic memory changes"
    )
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Talk until q or Ctrl-C; 0 when it was ended by a key."""
    console = Console(highlight=False)
    if args.list_devices:
        console.print(_device_table())
        return 0
    canceller = None if args.no_echo_cancellation else WebRtcCanceller(RATE_HZ)
    choose_both(args.input, args.output)  # what is missing is told before the models are loaded
    asyncio.run(_talk(args, console, canceller))
    return 0


async def _talk(args: argparse.Namespace, console: Console, canceller: Canceller | None) -> None:
    gate = Gate(half_duplex=args.half_duplex, push_to_talk=args.push_to_talk)
    plain = args.plain or not console.is_terminal
    extras = dict.fromkeys(("timing", "words", "memory"), True)
    async with _server_url(args, console) as url, connect_resuming(url, key=args.key, **extras) as client:
        with PlainScreen(console, memory=args.show_memory) if plain else LiveScreen(console) as screen:
            talk = Talk(client, _opener(args), screen, gate, canceller)
            await talk_with_keys(talk, gate)


async def talk_with_keys(talk: Talk, gate: Gate) -> None:
    """Talk, with m to mute, space to talk and q to quit where there is a keyboard."""
    space = TalkKey(gate)

    def press(key: str) -> None:
        match key:
            case " ":
                space.press()
            case "m":
                gate.muted = not gate.muted
            case "q":
                talk.stop()

    with key_presses(press):
        await talk.run()


def _opener(args: argparse.Namespace) -> OpenEnds:
    """Opens the devices that were asked for, and the defaults once one of those has gone."""

    def open_ends(again: bool) -> SoundCard:
        wanted = (None, None) if again else (args.input, args.output)
        return open_card(RATE_HZ, *wanted, again=again)

    return open_ends


@asynccontextmanager
async def _server_url(args: argparse.Namespace, console: Console) -> AsyncIterator[str]:
    """The address of the server: the one that was named, or one in this process."""
    if args.url:
        yield args.url
        return
    config, store = config_from(args), Store.default(os.environ)
    if any(store.fault(name) for name in store.names()):
        models.run(argparse.Namespace(verb="fetch", names=[]), store)
    async with AsyncExitStack() as stack:
        with console.status("loading models"):
            server = await open_server(stack, config, store)
        yield server.realtime_url


def _device_table() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), caption="* unless another is named", caption_justify="left")
    for column in ("", "device", "host", "in", "out", "Hz"):
        table.add_column(column, justify="left" if column in ("device", "host") else "right")
    for each in list_devices():
        heard, said = (
            f"{channels}{'*' if kind in each.default_for else ' '}" if channels else "- "
            for kind, channels in (("input", each.inputs), ("output", each.outputs))
        )
        table.add_row(str(each.index), each.name, each.host, heard, said, str(each.rate_hz))
    return table
