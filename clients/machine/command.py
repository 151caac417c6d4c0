"""``echoic bench machine``: what is measured, in which order, and the options."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from audio.wav import read_recording
from clients.machine import rows
from clients.machine.decoding import measure_language_model
from clients.machine.ears import UTTERANCE_S, WINDOW_S, measure_recogniser
from clients.machine.figures import Row, Skipped
from clients.machine.pipeline import lags_s, overheads_s
from clients.machine.report import render, write_json
from clients.machine.served import look
from clients.options import add_model_options, as_arguments, config_from
from clients.recordings import Recording
from pipeline.config import Config
from pipeline.ports import RATE_HZ, InputError
from pipeline.store import Store

if TYPE_CHECKING:
    from pipeline.backends.loader import Models
    from pipeline.backends.whisper import WhisperRecogniser

SESSIONS, TALKERS = 8, 4
STARTS = 2
TURNS = 6
# Passages of a reading that begin with a word: file, and the second at which it does.
PASSAGES = (("two_cities.wav", 0.9), ("two_cities.wav", 5.2), ("beckett.wav", 0.1))
Say = Callable[[str], object]


def add_parser(checks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the check to argparse."""
    parser = checks.add_parser(
        "machine",
        help="every figure against the limits of this machine",
        description="Measures in one run what a token, a pass of the recogniser, the pipeline itself, a start and "
        "a session cost, each against what this machine could do at best. Takes four minutes.",
    )
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="of what is compared (7)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the language model runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    add_model_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Measure and tell; 0, whatever is measured: a loaded machine misses goals that an idle one meets."""
    if args.rounds < 1:
        raise InputError("--rounds: expected 1 or more")
    bench = Bench(args, Store.default(os.environ))
    with console.status("") as status:
        asyncio.run(bench.measure(status.update))
    console.print(render(bench.rows, bench.skipped))
    if args.json:
        write_json(bench.rows, bench.skipped, args.json)
    return 0


class Bench:
    """One run: the rows in the order of the table, and what could not be measured."""

    def __init__(self, args: argparse.Namespace, store: Store) -> None:
        self.rows: list[Row] = []
        self.skipped: list[Skipped] = []
        self._args, self._store = args, store
        self._config = self._on_device(config_from(args), args.device)

    async def measure(self, say: Say) -> None:
        """Everything: a server's process first, while nothing is loaded here, then the models, then none."""
        from server.app import Server

        say("a server of its own: start, idling, memory")
        outside = await look(as_arguments(self._args), self._sources(), starts=STARTS, sessions=TALKERS)
        say("loading models")
        async with Server(self._config, store=self._store) as server:
            say("the language model")
            kv, state = await self._language_model(server.models)
            say("the recogniser")
            await self._recogniser(server.models.recogniser)
            say(f"{TALKERS} users at once")
            self.rows.append(rows.loop_lag(await lags_s(server, self._passages(WINDOW_S), TALKERS), TALKERS))
        say("the pipeline itself")
        self.rows.append(rows.overhead(await overheads_s(self._config, TURNS)))
        self.rows += rows.outside(outside, kv, state)

    def _on_device(self, config: Config, device: str) -> Config:
        """The configuration on the device that was asked for, where there is one."""
        from clients.machine.stock import why_no_gpu

        if config.llm.model.startswith("openai:"):
            raise InputError(f"{config.llm.model} runs elsewhere: choose a model that runs on this machine")
        if device == "cuda" and (why := why_no_gpu()):
            self.skipped.append(Skipped("every row on cuda", f"{why}; the rows above are the processor's"))
            device = "cpu"
        # What is measured is a step: guesses would be held against the wrong limit. And all talkers are let in.
        llm, server = replace(config.llm, device=device, guesses=False), replace(config.server, full_share=9.0)
        return replace(config, llm=llm, server=server)

    def _sources(self) -> list[Path | str]:
        from pipeline.backends.loader import source_of

        return [source_of(name, self._store) for name in (self._config.llm.model, self._config.asr.model)]

    async def _language_model(self, models: Models) -> tuple[int, int]:
        """Its rows; returns the bytes of a session's keys and values, and of a full window of states."""
        from clients.machine.stock import StockModel
        from pipeline.backends.causal_lm import CausalLM

        model, llm, source = models.language_model, self._config.llm, self._sources()[0]
        assert isinstance(model, CausalLM)
        stock = await asyncio.to_thread(StockModel, source, llm.device)
        load_bare = partial(
            CausalLM, source, device=llm.device, dtype=llm.dtype, decoder=llm.decoder, guesses=False
        )
        bare = await asyncio.to_thread(load_bare, cores=models.cores)
        measured = await measure_language_model(model, bare, stock, self._args.rounds, SESSIONS)
        bare.close()
        self.rows += measured.rows()
        return measured.kv_bytes, measured.state_bytes

    async def _recogniser(self, recogniser: WhisperRecogniser) -> None:
        tick_ms = self._config.asr.tick_ms
        heard = await measure_recogniser(
            recogniser, [one.at(RATE_HZ) for one in self._passages(WINDOW_S)], tick_ms, self._args.rounds
        )
        self.rows += rows.updates(heard.updates_s, heard.least_s, WINDOW_S, tick_ms)
        self.rows.append(rows.final(heard.finals_s, heard.least_finals_s, UTTERANCE_S))
        if not heard.least_s:
            self.skipped.append(
                Skipped("the recogniser's limit", "only the decoder of this project can be measured")
            )

    def _passages(self, seconds: float) -> list[Recording]:
        folder, passages = self._store.path("demo-recordings"), []
        for name, begin_s in PASSAGES:
            chunk = read_recording(folder / name)
            samples = chunk.samples[round(begin_s * chunk.rate_hz) : round((begin_s + seconds) * chunk.rate_hz)]
            length_s = len(samples) / chunk.rate_hz
            passages.append(Recording(Path(name), samples, chunk.rate_hz, speech_end_s=length_s))
        return passages
