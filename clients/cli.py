"""``echoic``: the commands, and how their failures are told."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from audio.format import AudioError
from pipeline.ports import EchoicError, InputError

# By the modules that carry them out, of which only the one that is asked for is imported.
COMMANDS = {
    "demo": "demo",
    "mic": "mic",
    "serve": "serve",
    "replay": "replay",
    "bench": "conduct",
    "models": "models",
    "codec": "codec",
    "guesses": "guesses",
    "recap": "recap",
}
# A model's thread asks for the interpreter a thousand times a token; with Python's 5 ms it waits too long for it.
SWITCH_INTERVAL_S = 0.0003
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 well, 1 failed, 2 bad input, 130 interrupted."""
    words = sys.argv[1:] if arguments is None else arguments
    args = _parser(words[:1]).parse_args(words)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        code: int = _command(args.command).run(args)
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except (InputError, AudioError) as error:
        return _tell(error, BAD_INPUT)
    except EchoicError as error:
        return _tell(error, FAILED)


def _command(name: str) -> Any:
    return import_module(f"clients.{COMMANDS[name]}")


def _parser(asked: Sequence[str]) -> argparse.ArgumentParser:
    """What this command takes; all of them where none is asked for."""
    parser = argparse.ArgumentParser(prog="echoic", description="A streaming voice assistant on your own machine.")
    parser.add_argument("--version", action="version", version=f"echoic {_version()}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS.keys() & asked or COMMANDS:
        _command(name).add_parser(subparsers)
    return parser


def _version() -> str:
    try:
        return version("echoic")
    except PackageNotFoundError:
        return "(not installed)"


def _tell(error: object, code: int) -> int:
    print(f"echoic: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
