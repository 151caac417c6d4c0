"""``echoic serve``: the assistant behind its WebSockets, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from clients.opening import open_server
from clients.options import add_model_options, config_from
from pipeline.config import Config
from pipeline.store import Store

if TYPE_CHECKING:
    from server.keys import Keys

DEFAULT_PORT = 8080


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "serve",
        help="serve the assistant to Realtime clients",
        description="Serves a page to try it, the OpenAI Realtime protocol at /v1/realtime, and speech in the "
        "ElevenLabs protocol. Without a key only this machine is served.",
    )
    parser.add_argument("--host", help="the address to listen at; this machine only, unless set")
    parser.add_argument("--port", type=int, help=f"the port to listen at ({DEFAULT_PORT}); 0 takes a free one")
    group = parser.add_argument_group("who may connect, and how")
    group.add_argument("--keys", type=Path, metavar="FILE", help="keys, one a line; or set ECHOIC_API_KEY to one")
    group.add_argument("--cert", metavar="FILE", help="a certificate (PEM): serve TLS")
    group.add_argument(
        "--key", metavar="FILE", help="the certificate's private key, where it is a file of its own"
    )
    parser.add_argument(
        "--log-json",
        action="store_true",
        help="log to stderr as JSON, a line for every turn: figures, never what was said",
    )
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from server.keys import read_keys
    from server.turn_log import log_as_json

    if args.log_json:
        log_as_json(sys.stderr)
    config = config_from(args, host=args.host, port=args.port, cert=args.cert, cert_key=args.key)
    if args.port is None and config.server.port == 0:  # a server that others shall find needs a known port
        config = replace(config, server=replace(config.server, port=DEFAULT_PORT))
    asyncio.run(_serve(config, read_keys(args.keys, os.environ), Console(highlight=False)))
    return 0


async def _serve(config: Config, keys: Keys, console: Console) -> None:
    stopped = asyncio.Event()
    with suppress(NotImplementedError):  # Windows has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with AsyncExitStack() as stack:
        with console.status("loading models"):
            server = await open_server(stack, config, Store.default(os.environ), keys)
        web = server.url.replace("ws", "http", 1)
        speech = f"{server.url}/text-to-speech/{config.speech.voice}/multi-stream-input"
        console.print(f"Page       {web.removesuffix('v1')}", soft_wrap=True)
        console.print(f"Realtime   {server.realtime_url}", soft_wrap=True)
        console.print(f"OpenAI     base URL {web}", soft_wrap=True)
        console.print(f"Speech     {speech}", soft_wrap=True)
        console.print("Stop with Ctrl-C", style="dim")
        async with asyncio.TaskGroup() as work:
            watching = work.create_task(server.watch.run())
            await stopped.wait()
            watching.cancel()
