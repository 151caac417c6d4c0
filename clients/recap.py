"""``echoic recap``: what each block of a long recording was about, as far as the states before it tell."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from clients.codec_timeline import Stretch, heard_in
from pipeline.ports import InputError

if TYPE_CHECKING:
    from codec.chain import StateChain
    from codec.memory import Hidden, SegmentEncoder
    from codec.window import FusedState

BLOCK_S = 10.0


@dataclass(frozen=True, slots=True)
class Block:
    """About ten seconds of speech; nats a token of its words, told nothing and behind the states before it."""

    begin_s: float
    end_s: float
    text: str
    alone_nats: float
    chained_nats: float


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "recap",
        help="follow a long recording by states alone, and measure what they tell",
        description="Recognises a recording in blocks of about ten seconds. Each begins with the state of all "
        "before it, under a kilobyte however long it gets; how much less its words surprise the model shows what "
        "that tells.",
    )
    parser.add_argument("file", type=Path, metavar="WAV")
    parser.add_argument(
        "--llm", default="smollm2-135m-instruct", metavar="MODEL", help="a store entry or a folder"
    )
    parser.add_argument("--codec", type=Path, metavar="CODEC", help="the codec (default: the model's)")
    parser.add_argument("--asr", default="whisper-base", metavar="MODEL", help="the recogniser")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the blocks")


def run(args: argparse.Namespace) -> int:
    """Read, tell, 0."""
    from clients.codec import model_path
    from codec.binding import load, weights_for
    from codec.chain import StateChain
    from codec.fit import Reader, load_frozen
    from codec.memory import SegmentEncoder
    from codec.model import CodecError

    stretches, _ = asyncio.run(heard_in(args.file, model_path(args.asr)))
    try:
        frozen = load_frozen(model_path(args.llm), Path(args.llm).name, exact=True)
        bound = load(args.codec or weights_for(frozen.base), frozen.base)
    except CodecError as error:
        raise InputError(str(error)) from error
    reader, encoder = Reader(frozen, bound), SegmentEncoder(bound.codec.encoder)
    blocks, chain, console = in_blocks(stretches), StateChain(encoder), Console(highlight=False)
    found = follow(blocks, reader.read, reader.surprise, encoder, chain)
    console.print(render(found))
    again = first_again(blocks, reader.read, reader.surprise, encoder, chain)
    console.print("the first block once more, at the end:", json.dumps(again))
    if args.json:
        written = {"blocks": [asdict(block) for block in found], "first_again": again}
        args.json.write_text(json.dumps(written, indent=1) + "\n")
    return 0


def in_blocks(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Stretches of speech joined until a block has ten seconds."""
    blocks: list[Stretch] = []
    for stretch in stretches:
        if blocks and blocks[-1].end_s - blocks[-1].begin_s < BLOCK_S:
            last = blocks.pop()
            stretch = Stretch(last.begin_s, stretch.end_s, f"{last.text} {stretch.text}")
        blocks.append(stretch)
    return blocks


def follow(
    blocks: Sequence[Stretch],
    read: Callable[[str], Hidden],
    surprise: Callable[[str, FusedState | None], float],
    encoder: SegmentEncoder,
    chain: StateChain,
) -> list[Block]:
    """Each block behind the state of those before it, and by itself."""
    from codec.memory import Said

    found = []
    for block in blocks:
        alone, chained = surprise(block.text, None), surprise(block.text, chain.state)
        found.append(Block(block.begin_s, block.end_s, block.text, round(alone, 3), round(chained, 3)))
        chain.push(encoder.grow(Said(), read(block.text)).segments)
    return found


def first_again(
    blocks: Sequence[Stretch],
    read: Callable[[str], Hidden],
    surprise: Callable[[str, FusedState | None], float],
    encoder: SegmentEncoder,
    chain: StateChain,
) -> dict[str, float]:
    """Nats a token of the first block's words after the last block: what is still known of how it began.

    Told nothing, behind the last block alone, and behind the ``chain`` of all blocks.
    """
    from codec.chain import StateChain
    from codec.memory import Said

    if not blocks:
        return {}
    last = StateChain(encoder)
    last.push(encoder.grow(Said(), read(blocks[-1].text)).segments)
    told = {"nothing": None, "the last block": last.state, "the chain": chain.state}
    return {name: round(surprise(blocks[0].text, state), 3) for name, state in told.items()}


def render(blocks: Sequence[Block]) -> Table:
    """A row for each block."""
    table = Table(box=box.SIMPLE_HEAD, caption="nats a token: the fewer, the more was known of what came")
    for head, justify in (("from", "right"), ("said", "left"), ("alone", "right"), ("chained", "right")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]  # a literal each
    for block in blocks:
        table.add_row(f"{block.begin_s:.0f} s", block.text, f"{block.alone_nats:.2f}", f"{block.chained_nats:.2f}")
    return table
