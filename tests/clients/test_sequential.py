"""The naive assistant, on virtual time with stages of declared cost: its figure is exact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import numpy as np
import pytest

from clients.accuracy import CutOff
from clients.recordings import Recording
from clients.sequential import FRAME_S, PREROLL_S, SequentialAssistant, SilenceEndpointer
from pipeline.ports import VAD_FRAME_SAMPLES, Hypothesis, Prompt, StageError, Token
from tests.clients.scripted import tone

FRAME = np.ones(VAD_FRAME_SAMPLES, np.float32)
ASR_S, TOKEN_S, VOICE_S, LEAD_IN_S = 0.68, 0.05, 0.06, 0.28


class Loudness:
    """Voice activity by ear."""

    def reset(self) -> None: ...

    async def push(self, frames: Sequence[np.ndarray]) -> list[float]:
        return [float(np.abs(frame).max() > 0.01) for frame in frames]


class Recogniser:
    def __init__(self, text: str = "what is it") -> None:
        self.heard: list[float] = []
        self._text = text

    async def recognise_padded(self, sound: np.ndarray) -> Hypothesis:
        await asyncio.sleep(ASR_S)
        self.heard.append(len(sound) / 16_000)
        return Hypothesis(self._text)


class Conversation:
    def __init__(self, prompts: list[Prompt]) -> None:
        self._prompts = prompts

    async def generate(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[Token, None]:
        self._prompts.append(prompt)
        for number, text in enumerate(["It", " is", " tea", "."]):
            await asyncio.sleep(TOKEN_S)
            yield Token(number, text)

    async def close(self) -> None: ...


class LanguageModel:
    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    def open(self) -> Conversation:
        return Conversation(self.prompts)


class Voice:
    async def speak(self, text: str) -> tuple[np.ndarray, int]:
        await asyncio.sleep(VOICE_S)
        return np.concatenate([np.zeros(round(LEAD_IN_S * 24_000), np.float32), tone(0.1)]), 24_000


class BrokenVoice:
    async def speak(self, text: str) -> tuple[np.ndarray, int]:
        raise StageError("speech", "the voice is gone")


def assistant(voice: Voice | BrokenVoice | None = None, text: str = "what is it") -> SequentialAssistant:
    return SequentialAssistant(Loudness(), Recogniser(text), LanguageModel(), voice or Voice(), "Be brief.", 40)


def spoken(*lengths_s: float, end_s: float, pauses: tuple[tuple[float, float], ...] = ()) -> Recording:
    """Speech and silence in turns."""
    pieces = [
        tone(length, 16_000) if index % 2 == 0 else np.zeros(round(length * 16_000), np.float32)
        for index, length in enumerate(lengths_s)
    ]
    return Recording(Path("clip.wav"), np.concatenate(pieces), 16_000, "x", speech_end_s=end_s, pauses=pauses)


@pytest.mark.looptime
async def test_its_latency_is_the_sum_of_its_waits() -> None:
    speech_s = 40 * FRAME_S
    answer = (await assistant().replay(spoken(speech_s, end_s=speech_s))).answer
    assert answer is not None
    waits = 25 * FRAME_S + ASR_S + 4 * TOKEN_S + VOICE_S + LEAD_IN_S
    assert answer.voice_to_voice_ms == pytest.approx(waits * 1000, abs=2)
    assert answer.parts_ms["turn_end_decided"] == pytest.approx(800, abs=1)
    assert answer.parts_ms["asr_final"] == pytest.approx(680, abs=1)
    assert sum(answer.parts_ms.values()) == answer.voice_to_voice_ms


@pytest.mark.looptime
async def test_a_long_pause_makes_it_break_in_and_answer_again_afterwards() -> None:
    recording = spoken(1.0, 3.0, 1.0, end_s=5.0, pauses=((1.0, 3.0),))
    result = await assistant().replay(recording)
    assert [turn.cut_off for turn in result.turns] == [CutOff.IN_PAUSE, CutOff.NONE]
    assert result.heard == "what is it what is it"


@pytest.mark.looptime
async def test_it_remembers_the_conversation_as_any_assistant_does() -> None:
    naive = assistant()
    await naive.replay(spoken(1.0, 3.0, 1.0, end_s=5.0))
    roles = [message.role for message in naive.language_model.prompts[-1].messages]
    assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.looptime
async def test_what_has_no_words_gets_no_answer() -> None:
    assert (await assistant(text=" ").replay(spoken(1.0, end_s=1.0))).turns == ()


@pytest.mark.looptime
async def test_a_stage_that_fails_is_a_problem_of_the_clip() -> None:
    result = await assistant(BrokenVoice()).replay(spoken(1.0, end_s=1.0))
    assert result.problems == ("speech: the voice is gone",)


def push(endpointer: SilenceEndpointer, probability: float, seconds: float) -> np.ndarray | None:
    for _ in range(round(seconds / FRAME_S)):
        if (turn := endpointer.push(FRAME, probability)) is not None:
            return turn
    return None


def test_silence_ends_a_turn_that_holds_the_speech_and_what_came_just_before_it() -> None:
    endpointer = SilenceEndpointer()
    assert push(endpointer, 0.0, 5.0) is None
    assert push(endpointer, 0.9, 2.0) is None
    turn = push(endpointer, 0.0, 2.0)
    assert turn is not None
    assert len(turn) / 16_000 == pytest.approx(PREROLL_S + 2.0 + 0.8, abs=2 * FRAME_S)


def test_a_pause_shorter_than_the_wait_ends_nothing() -> None:
    endpointer = SilenceEndpointer()
    push(endpointer, 0.9, 1.0)
    assert push(endpointer, 0.0, 0.7) is None
    push(endpointer, 0.9, 1.0)
    assert push(endpointer, 0.0, 0.7) is None


def test_a_click_is_no_turn() -> None:
    endpointer = SilenceEndpointer()
    push(endpointer, 0.9, 0.064)
    assert push(endpointer, 0.0, 5.0) is None
