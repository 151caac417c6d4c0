"""What echoic memory holds while a recording plays: heard, cut at its pauses, read by the model chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, Recogniser, Samples, VoiceActivity

if TYPE_CHECKING:
    from codec.memory import EchoicMemory, Hidden, SegmentEncoder

CHUNK_S = 0.2
SPEECH_PROBABILITY = 0.5
PAUSE_S = 0.3  # shorter gaps are part of speaking
AFTERWARDS_S = 4.0  # long enough to see the memory expire


@dataclass(frozen=True, slots=True)
class Stretch:
    """Speech between two pauses, in seconds of the recording."""

    begin_s: float
    end_s: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """The memory at one time: the energy of each slot times its weight, oldest slot first, 0 where empty."""

    time_s: float
    slots: NDArray[np.float32]
    entropy_bits: float


async def hear(sound: Samples, vad: VoiceActivity, recogniser: Recogniser) -> list[Stretch]:
    """The stretches of speech in a recording (16 kHz), recognised one by one."""
    frames = len(sound) // VAD_FRAME_SAMPLES
    cut = sound[: frames * VAD_FRAME_SAMPLES].reshape(frames, VAD_FRAME_SAMPLES)
    spoken = [probability >= SPEECH_PROBABILITY for probability in await vad.push(list(cut))]
    found = []
    for begin, end in _runs(spoken):
        heard = await recogniser.recognise(sound[begin * VAD_FRAME_SAMPLES : end * VAD_FRAME_SAMPLES])
        if heard.text:
            found.append(Stretch(_seconds(begin), _seconds(end), heard.text))
    return found


async def heard_in(path: Path, asr: Path | str) -> tuple[list[Stretch], float]:
    """The stretches of speech in a recording's file, and how long it is in seconds."""
    from audio.resample import resample
    from audio.wav import read_recording
    from pipeline.backends.silero import SileroModel
    from pipeline.backends.whisper import WhisperRecogniser

    recording = read_recording(path)
    sound = resample(recording.samples, recording.rate_hz, RATE_HZ)
    vad, recogniser = SileroModel(), WhisperRecogniser(asr)
    try:
        return await hear(sound, vad.open(), recogniser), len(sound) / RATE_HZ
    finally:
        vad.close()
        recogniser.close()


def _seconds(frame: int) -> float:
    return frame * VAD_FRAME_SAMPLES / RATE_HZ


def _runs(spoken: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """First and one past the last frame of speech, gaps below a pause included."""
    pause = round(PAUSE_S * RATE_HZ / VAD_FRAME_SAMPLES)
    begin = end = -1
    for at, speech in enumerate(spoken):
        if speech:
            begin, end = (at if begin < 0 else begin), at + 1
        elif begin >= 0 and at - end >= pause:
            yield begin, end
            begin = -1
    if begin >= 0:
        yield begin, end


def remember(
    stretches: Sequence[Stretch],
    read: Callable[[str], Hidden],
    encoder: SegmentEncoder,
    memory: EchoicMemory,
    duration_s: float,
    window_slots: int,
) -> list[Moment]:
    """Play stretches into a memory on the recording's clock.

    ``read`` gives the layer-L states [n, d] of a text; its tokens are taken to be spoken at an even pace.
    """
    states = [read(stretch.text) for stretch in stretches]
    moments: list[Moment] = []
    for step in range(1, round((duration_s + AFTERWARDS_S) / CHUNK_S) + 1):
        now_s = step * CHUNK_S
        for stretch, hidden in zip(stretches, states, strict=True):
            _play(stretch, hidden, encoder, memory, now_s)
        memory.expire(now_s)
        moments.append(_moment(memory, now_s, window_slots))
    return moments


def _play(stretch: Stretch, hidden: Hidden, encoder: SegmentEncoder, memory: EchoicMemory, now_s: float) -> None:
    """What is said of a stretch by the end of a chunk."""
    if not stretch.begin_s < now_s < stretch.end_s + CHUNK_S:
        return
    share = min((now_s - stretch.begin_s) / (stretch.end_s - stretch.begin_s), 1.0)
    from codec.memory import Said

    memory.hear(encoder.grow(Said(), hidden[: round(len(hidden) * share)]).segments, now_s)
    if now_s >= stretch.end_s:
        memory.settle(now_s)


def _moment(memory: EchoicMemory, now_s: float, window_slots: int) -> Moment:
    fused, slots = memory.fused(now_s), np.zeros(window_slots, np.float32)
    filled = [
        (segment.slots * weight / max(fused.weights)).square().sum(-1).sqrt().numpy()
        for segment, weight in zip(fused.segments, fused.weights, strict=True)
    ]
    if filled:
        energies = np.concatenate(filled)
        slots[-len(energies) :] = energies
    return Moment(now_s, slots, memory.health.entropy_bits if memory.health else 0.0)
