"""Recognition against the least that it does: the encoder at the sound's length, and one pass of the decoder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from audio.format import AudioChunk
from clients.beside import beside
from clients.machine.figures import Go, interleaved
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, Hypothesis, Recogniser, Samples
from pipeline.timing import loop_clock
from pipeline.transcribe import Transcriber

if TYPE_CHECKING:
    from pipeline.backends.whisper import WhisperRecogniser

WINDOW_S = 4.0
UTTERANCE_S = 3.0
HEARD_BEFORE_S = 0.2  # the last update before the pause missed so much of the utterance


@dataclass(frozen=True, slots=True)
class Update:
    """One pass: the sound it heard, and the seconds it took."""

    sound: Samples
    took_s: float


class TimedRecogniser:
    """A recogniser that notes how long each pass takes."""

    def __init__(self, recogniser: Recogniser) -> None:
        self.updates: list[Update] = []
        self._recogniser = recogniser

    async def recognise(self, sound: Samples, **known: Any) -> Hypothesis:
        """What was said; see the port."""
        began = time.perf_counter()
        heard = await self._recogniser.recognise(sound, **known)
        self.updates.append(Update(sound, time.perf_counter() - began))
        return heard


async def live_updates(recogniser: Recogniser, sound: Samples, tick_ms: int) -> list[Update]:
    """The passes over a turn's sound that comes as it is spoken, as the transcriber asks for them."""
    timed = TimedRecogniser(recogniser)
    transcriber = Transcriber(timed, tick_ms=tick_ms)
    transcriber.begin(AudioChunk(sound[:0], RATE_HZ, 0))
    async with beside(_listen(transcriber)):
        began = loop_clock()
        for end in range(VAD_FRAME_SAMPLES, len(sound) + 1, VAD_FRAME_SAMPLES):
            await asyncio.sleep(began + end / RATE_HZ - loop_clock())
            transcriber.push(sound[end - VAD_FRAME_SAMPLES : end])
    return timed.updates


async def _listen(transcriber: Transcriber) -> None:
    while True:
        await transcriber.next_partial()


class Final:
    """The pass after the pause over one utterance, its words heard so far being the guess."""

    def __init__(self, recogniser: WhisperRecogniser, sounds: Sequence[Samples]) -> None:
        self._recogniser, self._sounds = recogniser, sounds
        self._guesses: list[str] = []

    async def prepare(self) -> None:
        """Hear what was heard before the pause."""
        missed = round(HEARD_BEFORE_S * RATE_HZ)
        self._guesses = [(await self._recogniser.recognise(sound[:-missed])).text for sound in self._sounds]

    async def final_s(self) -> float:
        """Seconds an utterance."""
        began = time.perf_counter()
        for sound, guess in zip(self._sounds, self._guesses, strict=True):
            await self._recogniser.recognise(sound, guess=guess, final=True)
        return (time.perf_counter() - began) / len(self._sounds)

    async def least_s(self) -> float:
        """Seconds an utterance that the encoder and one pass of the decoder take."""
        return sum([await least_s(self._recogniser, sound) for sound in self._sounds]) / len(self._sounds)


async def least_s(recogniser: WhisperRecogniser, sound: Samples) -> float:
    """Seconds that the encoder and one pass of the decoder take, for the sound at its length."""
    began = time.perf_counter()
    await recogniser.worker.run(_least, recogniser, sound)
    return time.perf_counter() - began


def _least(recogniser: WhisperRecogniser, sound: Samples) -> None:
    from pipeline.backends.whisper import Asked

    assert recogniser.decoder is not None
    encoded = recogniser.ear.encode(sound)
    question = recogniser.question(encoded, len(sound) / RATE_HZ, Asked())
    recogniser.decoder.write(encoded[0], replace(question, limit=1))


@dataclass(frozen=True, slots=True)
class RecogniserFigures:
    """Seconds of every pass, and of the least that it must do; nothing where that cannot be measured."""

    updates_s: list[float]
    least_s: list[float]
    finals_s: list[float]
    least_finals_s: list[float]


async def measure_recogniser(
    recogniser: WhisperRecogniser, passages: Sequence[Samples], tick_ms: int, rounds: int
) -> RecogniserFigures:
    """Hear the passages in real time, then their first seconds as utterances, round by round."""
    updates, least = [], []
    for passage in passages:
        heard = await live_updates(recogniser, passage, tick_ms)
        updates += [update.took_s for update in heard]
        if recogniser.decoder is not None:
            least += [await least_s(recogniser, update.sound) for update in heard]
    final = Final(recogniser, [passage[: round(UTTERANCE_S * RATE_HZ)] for passage in passages])
    await final.prepare()
    goes: dict[str, Go] = {"final": final.final_s}
    if recogniser.decoder is not None:
        goes["least"] = final.least_s
    values = await interleaved(goes, rounds)
    return RecogniserFigures(updates, least, values["final"], values.get("least", []))
