"""``echoic serve``: the assistant behind its WebSockets, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

from rich.console import Console

from clients.options import add_model_options, config_from
from pipeline.config import Config

DEFAULT_PORT = 8080


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "serve",
        help="serve the assistant to Realtime clients",
        description="Serves the OpenAI Realtime protocol at /v1/realtime, and speech in the ElevenLabs protocol.",
    )
    parser.add_argument("--host", help="the address to listen at; this machine only, unless set")
    parser.add_argument("--port", type=int, help=f"the port to listen at ({DEFAULT_PORT}); 0 takes a free one")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    config = config_from(args, host=args.host, port=args.port)
    if args.port is None and config.server.port == 0:  # a server that others shall find needs a known port
        config = replace(config, server=replace(config.server, port=DEFAULT_PORT))
    asyncio.run(_serve(config, Console(highlight=False)))
    return 0


async def _serve(config: Config, console: Console) -> None:
    from server.app import Server

    async with AsyncExitStack() as stack:
        with console.status("loading models"):
            server = await stack.enter_async_context(Server(config))
        base = f"{config.server.host}:{server.port}"
        speech = f"ws://{base}/v1/text-to-speech/{config.speech.voice}/multi-stream-input"
        console.print(f"Realtime   ws://{base}/v1/realtime", soft_wrap=True)
        console.print(f"OpenAI     base URL http://{base}/v1", soft_wrap=True)
        console.print(f"Speech     {speech}", soft_wrap=True)
        console.print("Stop with Ctrl-C", style="dim")
        await asyncio.Event().wait()
