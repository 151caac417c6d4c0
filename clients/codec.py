"""`echoic codec train|eval|inspect`: echoic memory's weights, made, judged and looked at."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from clients.codec_options import add_eval_options, add_inspect_options, add_train_options
from pipeline.ports import InputError
from pipeline.store import Store

if TYPE_CHECKING:
    from clients.codec_timeline import Moment, Stretch
    from codec.binding import BaseModel, BoundCodec
    from codec.dialogues import Example
    from codec.fit import Report
    from codec.model import CodecConfig
    from codec.verdict import Verdict

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Add `codec` and its verbs to the commands of `echoic`."""
    parser = subparsers.add_parser("codec", help="train, judge and inspect the state codec of echoic memory")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="train|eval|inspect")
    add_train_options(verbs.add_parser("train", help="train a codec for a base model (minutes on a CPU)"))
    add_eval_options(verbs.add_parser("eval", help="how much of what the text tells does the state tell?"))
    add_inspect_options(
        verbs.add_parser("inspect", help="what is in a codec file, or in the memory of a recording")
    )


def run(args: argparse.Namespace) -> int:
    """Carry out a `codec` command; the exit status."""
    from codec.fit import use_threads
    from codec.model import CodecError

    if getattr(args, "threads", None):
        use_threads(args.threads)
    verbs = {"train": _train, "eval": _eval, "inspect": _inspect}
    try:
        return verbs[args.verb](args, Console(highlight=False))
    except CodecError as error:
        raise InputError(str(error)) from error


def _train(args: argparse.Namespace, console: Console) -> int:
    from codec.binding import load
    from codec.fit import fit, load_frozen
    from codec.train import Recipe

    examples = _examples(args, "train", informed=0.5)
    frozen = load_frozen(model_path(args.llm), Path(args.llm).name)
    everything = [example for part in examples.values() for example in part]
    start = load(args.start, frozen.base) if args.start else None
    begin, name = (start.codec, start.fingerprint.hex()) if start else (_new(args, frozen.base), "")
    recipe = Recipe(args.epochs, args.steps, rate=args.rate, seed=args.seed, start=name)
    with _bar(console) as report:
        bound = fit(frozen, everything, begin, recipe, args.work, report)
    bound.card["data"] = {name: len(part) for name, part in examples.items()}
    if start:
        bound.card["before"] = {name: value for name, value in start.card.items() if name != "figures"}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    bound.save(args.out)
    console.print(f"{args.out}: {args.out.stat().st_size / 1e3:.0f} kB, for {frozen.base}", soft_wrap=True)
    return 0


def _new(args: argparse.Namespace, base: BaseModel) -> CodecConfig:
    """The sizes that were asked for."""
    from codec.model import CodecConfig

    return CodecConfig(
        d_model=base.d_model,
        layer=args.layer if args.layer is not None else round(base.layers * 16 / 30),
        compression_ratio=1 / args.ratio,
        slots=args.slots,
        keep=args.keep,
        fusion_mode=args.mode,
    )


def _eval(args: argparse.Namespace, console: Console) -> int:
    from codec.binding import load
    from codec.fit import load_frozen
    from codec.verdict import Questions, judge

    if args.record and (args.slots or args.keep):
        raise InputError("--record is for the codec as it is: leave out --slots and --keep")
    sets, asked = _examples(args, "test", informed=0.0), {} if args.quick else _asked(args)
    frozen = load_frozen(model_path(args.llm), Path(args.llm).name)
    verdicts = {}
    for path in args.files:
        bound = load(path, frozen.base)
        for slots, keep in itertools.product(args.slots or [None], args.keep or [None]):
            sizes = (f", {slots} slots" if slots else "") + (f", keep {keep:g}" if keep else "")
            name, questions = f"{path.stem}{sizes}", Questions(args.decay, slots, keep, args.quick)
            with console.status(name) as status:
                verdicts[name] = judge(frozen, bound, sets, asked, questions, status.update)
            _print_verdict(console, name, verdicts[name])
        if args.record:
            bound.card["figures"] = verdicts[path.stem].as_dict()
            bound.save(path)
    _write(args, verdicts)
    return 0


def _examples(
    args: argparse.Namespace, split: Literal["train", "test"], informed: float
) -> dict[str, list[Example]]:
    """Named sets of examples: recall, and a sample of every data file."""
    from codec.dialogues import read_dialogues, sample
    from codec.recall import recall

    sets = {"recall": recall(args.recall, split, args.seed)} if args.recall else {}
    for path in args.data:
        sets[path.stem] = sample(read_dialogues(path), args.examples, 3, args.seed, informed)
    if not any(sets.values()):
        raise InputError("nothing to learn or judge from: give --data FILE.jsonl or --recall N")
    return sets


def _asked(args: argparse.Namespace) -> dict[str, list[Example]]:
    """Named sets of examples whose replies all take up a value; none of a kind where there is none."""
    few = argparse.Namespace(**vars(args) | {"examples": args.ranked, "recall": min(args.recall, args.ranked)})
    return {
        name: asked
        for name, examples in _examples(few, "test", informed=1.0).items()
        if (asked := [one for one in examples if one.answer])
    }


def model_path(name: str) -> Path | str:
    """A store entry's folder, or the name as it is."""
    store = Store.default()
    return store.path(name) if name in store.names() else name


@contextmanager
def _bar(console: Console) -> Iterator[Report]:
    """A progress bar a phase."""
    columns = (TextColumn("{task.description:9}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[note]}"), console=console) as progress:
        tasks = {}

        def report(phase: str, done: int, total: int, note: str = "") -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(phase, total=total, note=note)
            progress.update(tasks[phase], completed=done, note=note)

        yield report


def _print_verdict(console: Console, name: str, verdict: Verdict) -> None:
    table = _figures(f"{name}: recovery of {_counts(verdict.examples)} replies", verdict.recovery)
    for part, ages in verdict.by_age.items():
        table.add_row(f"{part}: by age", "  ".join(f"{age}: {value:.2f}" for age, value in ages.items()))
    console.print(table)
    console.print(f"window {verdict.bytes:.0f} bytes, {verdict.zeros:.0%} of the numbers zero")
    if verdict.ranking:
        title = f"right value ranked first of 5, {_counts(verdict.ranked)} replies"
        console.print(_figures(title, verdict.ranking))
    if verdict.overhead is not None:
        cost = verdict.overhead
        console.print(
            f"a token {cost.step_ms:.1f} ms, with the state {cost.extra_step_share:+.1%} time and"
            f" {cost.extra_flops_share:+.2%} operations;"
            f" encode {cost.encode_ms:.1f} ms, prepare {cost.prepare_ms:.0f} ms"
        )


def _counts(examples: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {part}" for part, count in examples.items())


def _figures(title: str, sets: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> Table:
    """A row a condition, a column a set: value and interval."""
    table = Table("condition", title=title, title_justify="left")
    for part in sets:
        table.add_column(part, justify="right")
    for condition in next(iter(sets.values())):
        cells = (figures[condition] for figures in sets.values())
        table.add_row(condition, *(f"{value:.3f} ({low:.2f} … {high:.2f})" for value, low, high in cells))
    return table


def _write(args: argparse.Namespace, verdicts: dict[str, Verdict]) -> None:
    if args.json is not None:
        args.json.write_text(json.dumps({name: one.as_dict() for name, one in verdicts.items()}, indent=1) + "\n")
    if args.plot is not None:
        from clients.codec_plots import draw_recovery

        draw_recovery(verdicts, args.plot)


def _inspect(args: argparse.Namespace, console: Console) -> int:
    from codec.binding import load

    if args.file.suffix == ".safetensors":
        _print_codec(console, load(args.file))
        return 0
    moments, stretches = asyncio.run(_timeline(args))
    table = Table("said", "from", "to")
    for stretch in stretches:
        table.add_row(stretch.text, f"{stretch.begin_s:.1f} s", f"{stretch.end_s:.1f} s")
    console.print(table)
    gone = [moment.time_s for moment in moments if not moment.slots.any()]
    console.print(f"memory is empty at {gone[-1]:.1f} s" if gone else "memory is never empty")
    if args.plot is not None:
        from clients.codec_plots import draw_memory

        draw_memory(moments, stretches, args.plot)
    return 0


async def _timeline(args: argparse.Namespace) -> tuple[list[Moment], list[Stretch]]:
    """The memory while a recording plays, and what was heard in it."""
    from clients.codec_timeline import heard_in, remember
    from codec.binding import load, weights_for
    from codec.fit import Reader, load_frozen
    from codec.memory import EchoicMemory, SegmentEncoder
    from codec.window import StateWindow

    stretches, duration_s = await heard_in(args.file, model_path(args.asr))
    frozen = load_frozen(model_path(args.llm), Path(args.llm).name, exact=True)
    bound = load(args.codec or weights_for(frozen.base), frozen.base)
    memory, encoder = EchoicMemory(bound.calibration, StateWindow()), SegmentEncoder(bound.codec.encoder)
    read = Reader(frozen, bound).read
    moments = remember(stretches, read, encoder, memory, duration_s, bound.codec.config.window_slots)
    return moments, stretches


def _print_codec(console: Console, bound: BoundCodec) -> None:
    config = bound.codec.config
    console.print(f"for {bound.base}", soft_wrap=True)
    console.print(
        f"{config.fusion_mode}, state at layer {config.layer}, {config.slots} slots of {config.code_dims} numbers"
        f" ({config.kept_dims} not zero) a segment, window of {config.window}"
    )
    console.print(
        f"{sum(p.numel() for p in bound.codec.parameters())} parameters, named {bound.fingerprint.hex()}"
    )
    console.print_json(json.dumps(bound.card))
