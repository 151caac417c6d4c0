"""What the verbs of `echoic codec` can be told."""

from __future__ import annotations

import argparse
from pathlib import Path

_BASE = "smollm2-135m-instruct"


def add_train_options(parser: argparse.ArgumentParser) -> None:
    """What `echoic codec train` can be told."""
    _add_model(parser)
    parser.add_argument("--data", type=Path, action="append", default=[], metavar="FILE.jsonl", help="dialogues")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the codec file to write")
    parser.add_argument(
        "--work", type=Path, default=Path("codec-work"), metavar="DIR", help="what a resumed run needs"
    )
    parser.add_argument("--examples", type=int, default=2000, metavar="N", help="taken from each data file")
    parser.add_argument("--recall", type=int, default=1000, metavar="N", help="made-up recall dialogues")
    parser.add_argument("--start", type=Path, metavar="CODEC", help="train this codec further, with its sizes")
    parser.add_argument("--mode", default="attention_slots", help="attention_slots, cross_attention or additive")
    parser.add_argument("--layer", type=int, metavar="L", help="layers below the state (default: 16 of 30)")
    parser.add_argument("--ratio", type=int, default=16, metavar="R", help="a slot is 1/R of the model's width")
    parser.add_argument("--slots", type=int, default=8, metavar="K", help="slots a segment")
    parser.add_argument("--keep", type=float, default=2 / 3, metavar="SHARE", help="of a slot's numbers not zero")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate (2e-3)")
    parser.add_argument("--steps", type=int, metavar="N", help="stop after so many steps, whatever the epochs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: as torch finds best)")


def add_eval_options(parser: argparse.ArgumentParser) -> None:
    """What `echoic codec eval` can be told."""
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="CODEC", help="one codec file, or several to compare"
    )
    _add_model(parser)
    parser.add_argument("--data", type=Path, action="append", default=[], metavar="FILE.jsonl", help="dialogues")
    parser.add_argument("--examples", type=int, default=200, metavar="N", help="taken from each data file")
    parser.add_argument("--recall", type=int, default=150, metavar="N", help="recall dialogues with unseen values")
    parser.add_argument(
        "--ranked",
        type=int,
        default=100,
        metavar="N",
        help="replies of each kind that take up a value, to rank it",
    )
    parser.add_argument("--decay", type=float, default=0.7)
    parser.add_argument(
        "--slots", type=int, action="append", metavar="K", help="judge with so many slots a segment"
    )
    parser.add_argument(
        "--keep",
        type=float,
        action="append",
        metavar="SHARE",
        help="judge with so many of a slot's numbers not zero",
    )
    parser.add_argument("--quick", action="store_true", help="without the text controls and the ranking")
    parser.add_argument("--record", action="store_true", help="write the figures into the codec file's header")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw recovery against bytes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, metavar="N")


def add_inspect_options(parser: argparse.ArgumentParser) -> None:
    """What `echoic codec inspect` can be told."""
    parser.add_argument("file", type=Path, metavar="CODEC|WAV", help="a codec file, or a recording")
    _add_model(parser)
    parser.add_argument(
        "--codec", type=Path, metavar="CODEC", help="for a recording: the codec (default: the model's)"
    )
    parser.add_argument("--asr", default="whisper-base", metavar="MODEL", help="for a recording: the recogniser")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="for a recording: the picture")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--llm", default=_BASE, metavar="MODEL", help="a store entry or a local folder")
