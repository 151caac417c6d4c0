"""Options that several commands share, and the configuration they make."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from pipeline.config import Config, load_config
from pipeline.ports import InputError


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose models and settings."""
    group = parser.add_argument_group("models and settings")
    where = "a store entry, a local folder or a hub id"
    group.add_argument("--asr", metavar="MODEL", help=f"speech recognition: {where}")
    group.add_argument("--llm", metavar="MODEL", help=f"language model: {where}, or openai:URL#MODEL")
    group.add_argument("--voice", metavar="NAME", help="the voice that answers")
    group.add_argument("--speech", metavar="URL", help="another server of the ElevenLabs protocol, ws://...")
    group.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML")
    group.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting, e.g. llm.max_tokens=60"
    )


def config_from(args: argparse.Namespace, **server: Any) -> Config:
    """The configuration that the options ask for; ``server`` are settings of that section, None as if not given.

    Raises InputError naming the option or setting that cannot be used.
    """
    named = {"asr.model": args.asr, "llm.model": args.llm, "speech.voice": args.voice, "speech.url": args.speech}
    named.update({f"server.{key}": value for key, value in server.items()})
    overrides = dict(_parse_setting(text) for text in args.set)
    overrides.update({key: value for key, value in named.items() if value is not None})
    return load_config(args.config, overrides)


def as_arguments(args: argparse.Namespace) -> list[str]:
    """The same options for another command line."""
    named = {"--asr": args.asr, "--llm": args.llm, "--voice": args.voice, "--speech": args.speech}
    named["--config"] = args.config
    given = [(name, str(value)) for name, value in named.items() if value is not None]
    return [part for option in given for part in option] + [part for one in args.set for part in ("--set", one)]


def _parse_setting(text: str) -> tuple[str, Any]:
    """``llm.max_tokens=60`` as a dotted key and a TOML value; what is no TOML value is a string."""
    key, equals, value = text.partition("=")
    if not equals or "." not in key:
        raise InputError(f"--set {text}: expected SECTION.KEY=VALUE, e.g. llm.max_tokens=60")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
