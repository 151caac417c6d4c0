"""``echoic demo``: a conversation in real time, human recordings and spoken questions in, spoken answers out."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from audio.format import AudioChunk
from audio.wav import read_recording, write_recording
from clients import models
from clients.clip import Visit
from clients.hearing import AUDIBLE_LEVEL, Reply, mix_down, play_back
from clients.measure import ClipResult
from clients.opening import open_server
from clients.options import add_model_options, config_from
from clients.realtime import RATE_HZ, RealtimeClient, connect
from clients.recordings import Recording
from clients.screen import Screen, turn_table
from clients.uplink import Uplink, open_uplink
from pipeline.config import Config
from pipeline.ports import Voice
from pipeline.store import Store
from pipeline.timing import loop_clock

BREATH_S = 0.6  # between the end of an answer and the next question
TAIL_S = 0.3  # of the recording, after the last answer

# Whole phrases of the two readings, cut where the reader takes a breath: file, first and last second.
READINGS = (("two_cities.wav", 0.9, 4.55), ("beckett.wav", 0.1, 2.95))
QUESTIONS = (
    "What is the capital of France?",
    "How many days are in a week?",
    "Who wrote Romeo and Juliet?",
    "Why is the sky blue?",
)


@dataclass(frozen=True, slots=True)
class Line:
    """What the user says, and in whose voice."""

    speaker: str
    recording: Recording


@dataclass(slots=True)
class Transcript:
    """What a whole conversation sounded like: each side's sounds at their position in the session, in seconds."""

    user: list[tuple[float, NDArray[np.float32]]] = field(default_factory=list)
    assistant: list[tuple[float, NDArray[np.float32]]] = field(default_factory=list)
    results: list[ClipResult] = field(default_factory=list)

    def sides(self) -> tuple[AudioChunk, AudioChunk]:
        """The user's and the assistant's track, on one timeline."""
        ends_s = [at + len(sound) / RATE_HZ for at, sound in (*self.user, *self.assistant)]
        length = round((max(ends_s, default=0.0) + TAIL_S) * RATE_HZ)
        user, assistant = mix_down(self.user, length), mix_down(self.assistant, length)
        return AudioChunk(user, RATE_HZ), AudioChunk(assistant, RATE_HZ)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to argparse."""
    parser = subparsers.add_parser(
        "demo",
        help="hear a short conversation, with figures",
        description="Starts the assistant in this process and speaks to it in real time: two short readings by "
        "human voices, and questions in the built-in synthetic voice.",
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo.wav"), help="both sides, as a stereo recording")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Hold the conversation; 0 if every line was answered, else 1."""
    screen, config, store = Screen(Console(highlight=False)), config_from(args), Store.default(os.environ)
    if any(store.fault(name) for name in store.names()):
        models.run(argparse.Namespace(verb="fetch", names=[]), store)
    transcript = asyncio.run(_demo(config, store, screen))
    screen.say("")
    screen.console.print(turn_table([result.answer for result in transcript.results]))
    for problem in (problem for result in transcript.results for problem in result.problems):
        screen.say(problem, "yellow")
    write_recording(args.out, *transcript.sides())
    screen.say(f"both sides, you on the left: {args.out}", "bold")
    return 0 if all(result.answer for result in transcript.results) else 1


async def _demo(config: Config, store: Store, screen: Screen) -> Transcript:
    began = loop_clock()
    screen.say("Echoic: speech in, speech out, on this machine", "bold")
    async with AsyncExitStack() as stack:
        with screen.console.status("loading models"):
            readings = _readings(store.path("demo-recordings"))
            server = await open_server(stack, config, store)
            questions = await _questions(server.voice)
        screen.say(f"ready in {loop_clock() - began:.1f} s", "dim")
        screen.say("Readings: human voices. Questions: the built-in voice, which is synthetic.")
        client = await stack.enter_async_context(connect(server.realtime_url, timing=True))
        return await converse(client, [*readings, *questions], screen)


async def converse(client: RealtimeClient, lines: Iterable[Line], screen: Screen) -> Transcript:
    """Say each line once the answer to the one before has been played."""
    transcript = Transcript()
    await client.configure(audio={"input": {"transcription": {"model": "default"}}})
    async with open_uplink(client) as uplink:
        for line in lines:
            await asyncio.sleep(BREATH_S)
            await _say(line, client, uplink, transcript, screen)
    return transcript


async def _say(line: Line, client: RealtimeClient, uplink: Uplink, transcript: Transcript, screen: Screen) -> None:
    sound = line.recording.at(RATE_HZ)
    begins_s = uplink.speak(sound)
    transcript.user.append((begins_s, sound))
    with screen.turn(begins_s, line.speaker):
        visit = Visit(line.recording, uplink, begins_s, watch=lambda _event: screen.follow(visit.hearing))
        await visit.listen(client)
    transcript.results.append(visit.result())
    for reply in visit.hearing.replies:
        await _hear_out(reply, uplink, transcript)


async def _hear_out(reply: Reply, uplink: Uplink, transcript: Transcript) -> None:
    """Note where the reply's sound lies on the session's timeline, and wait until it has been played."""
    playback = play_back(reply.pieces)
    if playback is None:
        return
    for piece, starts_at in zip(reply.pieces, playback.starts, strict=True):
        transcript.assistant.append((uplink.position_at(starts_at), piece.samples))
    await asyncio.sleep(max(playback.ends_at - loop_clock(), 0.0))


def _readings(folder: Path) -> list[Line]:
    lines = []
    for name, first_s, last_s in READINGS:
        chunk = read_recording(folder / name)
        cut = chunk.samples[round(first_s * chunk.rate_hz) : round(last_s * chunk.rate_hz)]
        lines.append(_line(f"a human voice ({name})", cut, chunk.rate_hz))
    return lines


async def _questions(voice: Voice) -> list[Line]:
    lines = []
    for question in QUESTIONS:
        speech = await voice.speak(question)
        lines.append(_line(f"the synthetic voice: “{question}”", speech.samples, speech.rate_hz))
    return lines


def _line(speaker: str, samples: NDArray[np.float32], rate_hz: int) -> Line:
    """A line whose speech ends with its last sample that can be heard."""
    loud = np.flatnonzero(np.abs(samples) > AUDIBLE_LEVEL)
    end_s = float(loud[-1] if len(loud) else len(samples)) / rate_hz
    return Line(speaker, Recording(Path(speaker), samples, rate_hz, speech_end_s=end_s))
