"""The naive assistant to compare with: wait for silence, then one step after the other, each one whole.

It hears the same recording in the same real time and uses the same loaded models. It waits for 0.8 s without
speech (the common default of voice activity detectors), recognises the turn with Whisper's padded 30 s window,
lets the language model write the whole reply, synthesises all of it and plays that as the synthesiser gives it,
silence in front included. It is timed to the first audible sample, as Echoic is, and it pays nothing for a
network or a wire format: what is compared is the order of the work, nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clients.accuracy import CutOff, classify_cut_off
from clients.hearing import first_audible
from clients.latency import break_down
from clients.measure import ClipResult, TurnResult
from clients.recordings import Recording
from pipeline.ports import (
    RATE_HZ,
    VAD_FRAME_SAMPLES,
    Hypothesis,
    LanguageModel,
    Message,
    Prompt,
    StageError,
    Token,
    VoiceActivity,
)
from pipeline.timing import Mark, loop_clock
from pipeline.worker import Worker

SILENCE_S = 0.8
PREROLL_S = 0.4
MIN_SPEECH_S = 0.1
START_PROBABILITY, STOP_PROBABILITY = 0.5, 0.35
FRAME_S = VAD_FRAME_SAMPLES / RATE_HZ
TAIL_S = 1.5  # silence after the recording: enough for the wait


class PaddedRecogniser(Protocol):
    """Whisper as it is commonly called."""

    async def recognise_padded(self, sound: NDArray[np.float32]) -> Hypothesis:
        """What was said in float32 mono sound at 16 kHz, padded to 30 s."""


class WholeVoice(Protocol):
    """A synthesiser that is given the whole text and gives the whole sound."""

    async def speak(self, text: str) -> tuple[NDArray[np.float32], int]:
        """The sound, silence in front included, and its rate."""


class UntrimmedHibari:
    """The built-in voice's engine as it comes, with a worker thread; ``speak`` once before it is timed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._engine: Any = None
        self._worker = Worker("untrimmed-voice")

    async def speak(self, text: str) -> tuple[NDArray[np.float32], int]:
        """The whole text as float32 mono sound, and its rate."""
        return await self._worker.run(self._speak, text)

    def close(self) -> None:
        """End the worker thread."""
        self._worker.close()

    def _speak(self, text: str) -> tuple[NDArray[np.float32], int]:
        if self._engine is None:
            from hibari import Hibari

            self._engine = Hibari(voice=self._name)
        return self._engine(text), self._engine.sample_rate


class SilenceEndpointer:
    """Cuts turns where nobody has spoken for 0.8 s. Pure; fed with 32 ms frames and their speech probability."""

    def __init__(self) -> None:
        self._frames: list[NDArray[np.float32]] = []
        self._spoken_frames = 0
        self._silent_frames = 0

    def push(self, frame: NDArray[np.float32], probability: float) -> NDArray[np.float32] | None:
        """The sound of the turn that this frame ends, if it ends one."""
        self._frames.append(frame)
        if probability >= (STOP_PROBABILITY if self._spoken_frames else START_PROBABILITY):
            self._spoken_frames += 1
            self._silent_frames = 0
            return None
        if not self._spoken_frames:
            self._frames = self._frames[-round(PREROLL_S / FRAME_S) :]
            return None
        self._silent_frames += 1
        if self._silent_frames * FRAME_S < SILENCE_S:
            return None
        turn = np.concatenate(self._frames) if self._spoken_frames * FRAME_S >= MIN_SPEECH_S else None
        self._frames, self._spoken_frames, self._silent_frames = [], 0, 0
        return turn


@dataclass(frozen=True, slots=True)
class SequentialAssistant:
    """The naive assistant on models that are loaded already."""

    vad: VoiceActivity
    recogniser: PaddedRecogniser
    language_model: LanguageModel
    voice: WholeVoice
    instructions: str
    max_tokens: int

    async def replay(self, recording: Recording) -> ClipResult:
        """Listen to the recording in real time and answer every turn that silence ends in it.

        It does one thing at a time: while it makes a reply it does not listen, and catches up afterwards.
        """
        turns: list[TurnResult] = []
        messages = [Message("system", self.instructions)]
        endpointer, began = SilenceEndpointer(), loop_clock()
        self.vad.reset()
        try:
            async for frame in _in_real_time(recording, began):
                [probability] = await self.vad.push([frame])
                sound = endpointer.push(frame, probability)
                if sound is not None and (turn := await self._answer(sound, messages, recording, began)):
                    turns.append(turn)
        except StageError as error:
            return ClipResult(_heard(turns), tuple(turns), problems=(str(error),))
        return ClipResult(_heard(turns), tuple(turns))

    async def _answer(
        self, sound: NDArray[np.float32], messages: list[Message], recording: Recording, began: float
    ) -> TurnResult | None:
        moments = {Mark.TURN_END_DECIDED.value: loop_clock()}
        heard = (await self.recogniser.recognise_padded(sound)).text.strip()
        moments[Mark.ASR_FINAL.value] = loop_clock()
        if not heard:
            return None
        messages.append(Message("user", heard))
        reply = await self._write(messages, moments)
        messages.append(Message("assistant", reply))
        samples, rate_hz = await self.voice.speak(reply)
        moments[Mark.FIRST_AUDIO_MADE.value] = made_at = loop_clock()
        onset = first_audible(samples)
        if onset is None:
            return TurnResult(heard, reply)
        return _measure(TurnResult(heard, reply), moments, made_at + onset / rate_hz, recording, began)

    async def _write(self, messages: list[Message], moments: dict[str, float]) -> str:
        """The whole reply; notes when its first token came and when it was complete."""
        conversation = self.language_model.open()
        pieces: list[str] = []
        try:
            async for part in conversation.generate(Prompt(tuple(messages)), self.max_tokens):
                if isinstance(part, Token):
                    moments.setdefault(Mark.FIRST_TOKEN.value, loop_clock())
                    pieces.append(part.text)
        finally:
            await conversation.close()
        moments[Mark.FIRST_PHRASE.value] = loop_clock()
        return "".join(pieces).strip()


async def _in_real_time(recording: Recording, began: float) -> AsyncIterator[NDArray[np.float32]]:
    """Frames of the recording and of the silence after it, each once its last sample was spoken."""
    sound = recording.at(RATE_HZ)
    frames = -(-(len(sound) + round(TAIL_S * RATE_HZ)) // VAD_FRAME_SAMPLES)
    padded = np.zeros(frames * VAD_FRAME_SAMPLES, np.float32)
    padded[: len(sound)] = sound
    for index, frame in enumerate(padded.reshape(frames, VAD_FRAME_SAMPLES)):
        await asyncio.sleep(max(began + (index + 1) * FRAME_S - loop_clock(), 0.0))
        yield frame


def _measure(
    turn: TurnResult, moments: dict[str, float], audible_at: float, recording: Recording, began: float
) -> TurnResult:
    heard_s, end_s = audible_at - began, recording.speech_end_s
    turn = replace(turn, first_heard_s=round(heard_s, 3))
    if end_s is None:
        return turn
    if (cut_off := classify_cut_off(heard_s, end_s, recording.pauses)) is not CutOff.NONE:
        return replace(turn, cut_off=cut_off)
    parts = break_down(
        {name: (at - began - end_s) * 1000 for name, at in moments.items()}, (heard_s - end_s) * 1000
    )
    return replace(turn, voice_to_voice_ms=sum(parts.values()), parts_ms=parts)


def _heard(turns: list[TurnResult]) -> str:
    return " ".join(turn.heard for turn in turns)
