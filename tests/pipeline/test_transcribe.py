"""Transcribing: sound of a turn in, partial and final transcripts out, on a recogniser that knows the script."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from audio.format import AudioChunk
from pipeline.frames import Final, Partial
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, Hypothesis, Samples, StageError
from pipeline.transcribe import KEPT_S, LIMIT_S, WINDOW_S, Transcriber

WORD_SAMPLES = RATE_HZ // 4
ORIGIN = 8 * RATE_HZ


def sound(start: int, end: int) -> Samples:
    """A stretch of the script: the value of a sample is the number of the word that it belongs to."""
    return (np.arange(start, end) // WORD_SAMPLES + 1).astype(np.float32)


@dataclass
class Clerk:
    """Writes down the number of every word that has been spoken to its end."""

    calls: list[dict[str, object]] = field(default_factory=list)
    heard: list[Samples] = field(default_factory=list)
    sure: bool = True
    logprob: float = -0.2
    fails: bool = False
    gate: asyncio.Event | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def recognise(
        self,
        sound: Samples,
        *,
        prompt: str = "",
        prefix: str = "",
        guess: str = "",
        timed: bool = False,
        final: bool = False,
    ) -> Hypothesis:
        self.calls.append({"prompt": prompt, "prefix": prefix, "guess": guess, "timed": timed, "final": final})
        self.heard.append(sound)
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise StageError("speech recognition", "lost for words")
        numbers, counts = np.unique(sound[sound > 0], return_counts=True)
        words = [f"w{number:.0f}" for number, count in zip(numbers, counts, strict=True) if count == WORD_SAMPLES]
        silence = int(np.argmax(sound > 0))
        ends = tuple(silence + int(counts[: place + 1].sum()) for place in range(len(words))) if timed else ()
        return Hypothesis(" ".join(words), self.logprob, ends=ends, sure=self.sure)


class Speaker:
    """Says the script to a transcriber, frame by frame."""

    def __init__(self, transcriber: Transcriber) -> None:
        self._transcriber = transcriber
        self.said = 0
        self.at = ORIGIN
        transcriber.begin(AudioChunk(np.zeros(0, np.float32), RATE_HZ, ORIGIN))

    def say(self, seconds: float, clear: bool = True) -> None:
        end = self.said + int(seconds * RATE_HZ)
        while self.said < end:
            size = min(VAD_FRAME_SAMPLES, end - self.said)
            self._push(sound(self.said, self.said + size), voiced=True, clear=clear)
            self.said += size

    def hush(self, frames: int = 1) -> None:
        for _ in range(frames):
            self._push(np.zeros(VAD_FRAME_SAMPLES, np.float32), voiced=False)

    def _push(self, samples: Samples, voiced: bool, clear: bool = False) -> None:
        self._transcriber.push(samples, voiced, clear)
        self.at += len(samples)


@pytest.fixture
def clerk() -> Clerk:
    return Clerk()


@pytest.fixture
def transcriber(clerk: Clerk) -> Transcriber:
    return Transcriber(clerk, tick_ms=200)


@pytest.fixture
def speaker(transcriber: Transcriber) -> Speaker:
    return Speaker(transcriber)


async def test_a_tick_of_speech_brings_an_update(transcriber: Transcriber, speaker: Speaker) -> None:
    speaker.say(0.5)
    assert await transcriber.next_partial() == Partial("", "w1 w2", speaker.at)


async def test_words_of_two_updates_become_stable(transcriber: Transcriber, speaker: Speaker) -> None:
    speaker.say(0.75)
    await transcriber.next_partial()
    speaker.say(0.25)
    assert await transcriber.next_partial() == Partial("w1 w2", " w3 w4", speaker.at)


async def test_less_than_a_tick_brings_none(transcriber: Transcriber, speaker: Speaker) -> None:
    speaker.say(0.19)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(transcriber.next_partial(), 0)


async def test_the_first_silent_frame_brings_an_update_at_once(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    speaker.say(0.1)
    speaker.hush()
    assert (await transcriber.next_partial()).until == speaker.at


async def test_silence_brings_no_more_updates(transcriber: Transcriber, speaker: Speaker) -> None:
    speaker.say(0.5)
    speaker.hush(30)
    await transcriber.next_partial()
    speaker.hush(30)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(transcriber.next_partial(), 0)


async def test_a_sure_update_that_heard_all_the_speech_is_the_final(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    speaker.say(0.5)
    spoken = speaker.at
    speaker.hush()
    await transcriber.next_partial()
    speaker.hush(2)
    assert await transcriber.finish(spoken) == Final("w1 w2", spoken)
    assert len(clerk.calls) == 1


async def test_an_unsure_one_is_looked_at_again_with_the_end_of_the_last_word(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.sure = False
    speaker.say(0.5)
    spoken = speaker.at
    speaker.hush()
    await transcriber.next_partial()
    speaker.hush(2)
    await transcriber.finish(spoken)
    assert [call["final"] for call in clerk.calls] == [False, True]
    assert len(clerk.heard[1]) == len(clerk.heard[0]) + 2 * VAD_FRAME_SAMPLES


async def test_speech_that_no_update_heard_is_recognised_at_the_pause(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    speaker.say(0.5)
    await transcriber.next_partial()
    speaker.say(0.25)
    speaker.hush(3)
    assert (await transcriber.finish(speaker.at - 3 * VAD_FRAME_SAMPLES)).text == "w1 w2 w3"
    assert clerk.calls[-1]["final"]


async def test_a_pause_waits_for_the_running_update_and_takes_it(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.gate = asyncio.Event()
    speaker.say(0.5)
    speaker.hush()
    update = asyncio.create_task(transcriber.next_partial())
    final = asyncio.create_task(transcriber.finish(speaker.at - VAD_FRAME_SAMPLES))
    await clerk.asked.wait()
    clerk.gate.set()
    await update
    assert (await final).text == "w1 w2"
    assert len(clerk.calls) == 1


async def test_the_final_begins_with_the_stable_text(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    speaker.say(0.5)
    await transcriber.next_partial()
    speaker.say(0.25)
    stable = (await transcriber.next_partial()).stable
    speaker.say(0.1)
    await transcriber.finish(speaker.at)
    assert clerk.calls[-1]["prefix"] == stable == "w1"


async def test_the_newest_hypothesis_is_the_guess_for_the_next(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    speaker.say(0.75)
    await transcriber.next_partial()
    speaker.say(0.25)
    await transcriber.finish(speaker.at)
    assert [call["guess"] for call in clerk.calls] == ["", "w1 w2 w3"]


async def test_a_turn_goes_on_after_its_pause(transcriber: Transcriber, speaker: Speaker) -> None:
    speaker.say(0.5)
    speaker.hush(10)
    await transcriber.finish(speaker.at)
    speaker.say(0.5)
    assert (await transcriber.finish(speaker.at)).text == "w1 w2 w3 w4"


async def test_a_slow_recogniser_skips_to_the_newest_sound(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.gate = asyncio.Event()
    speaker.say(0.25)
    first = asyncio.create_task(transcriber.next_partial())
    await clerk.asked.wait()
    speaker.say(1.0)
    clerk.gate.set()
    await first
    assert transcriber.asr_lag_ms == 1000
    assert (await transcriber.next_partial()).until == speaker.at
    assert transcriber.skipped_ticks == 4
    assert transcriber.asr_lag_ms == 0


async def test_speech_that_stops_gives_up_the_update_that_is_running(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.gate = asyncio.Event()
    speaker.say(0.25)
    update = asyncio.create_task(transcriber.next_partial())
    await clerk.asked.wait()
    speaker.say(0.25)
    clerk.gate = None
    speaker.hush()
    assert (await update).unstable == "w1 w2"
    assert [len(sound) for sound in clerk.heard] == [RATE_HZ // 4, RATE_HZ // 2 + VAD_FRAME_SAMPLES]


async def test_a_long_turn_is_heard_through_a_bounded_window(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    for _ in range(240):
        speaker.say(0.25)
        await transcriber.next_partial()
    longest = max(len(heard) for heard in clerk.heard) / RATE_HZ
    assert WINDOW_S < longest <= WINDOW_S + 0.25
    assert (await transcriber.finish(speaker.at)).text.split() == [f"w{number}" for number in range(1, 241)]


async def test_sound_without_words_goes_out_of_the_window_too(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    for _ in range(100):
        transcriber.push(np.zeros(RATE_HZ // 4, np.float32))
        await transcriber.next_partial()
    assert KEPT_S <= len(clerk.heard[-1]) / RATE_HZ <= WINDOW_S + 0.25


async def test_what_is_never_recognised_is_bounded_as_well(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    speaker.say(2 * LIMIT_S)
    await transcriber.finish(speaker.at)
    assert len(clerk.heard[0]) == LIMIT_S * RATE_HZ


async def test_cancelling_leaves_the_transcript_as_it_was(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    speaker.say(0.5)
    await transcriber.next_partial()
    clerk.gate = asyncio.Event()
    speaker.say(0.5)
    final = asyncio.create_task(transcriber.finish(speaker.at))
    await clerk.asked.wait()
    final.cancel()
    await asyncio.wait([final])
    clerk.gate.set()
    assert (await transcriber.finish(speaker.at)).text == "w1 w2 w3 w4"


async def test_a_failure_is_raised_once_and_the_next_sound_is_heard(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.fails = True
    speaker.say(0.25)
    with pytest.raises(StageError, match="lost for words"):
        await transcriber.next_partial()
    clerk.fails = False
    speaker.say(0.25)
    assert (await transcriber.next_partial()).unstable == "w1 w2"


async def test_an_update_of_a_turn_that_is_forgotten_is_never_seen(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.gate = asyncio.Event()
    speaker.say(0.5)
    update = asyncio.create_task(transcriber.next_partial())
    await clerk.asked.wait()
    transcriber.forget()
    again = Speaker(transcriber)
    again.say(0.25)
    clerk.gate.set()
    assert (await update).unstable == "w1"


async def test_words_that_are_guessed_from_a_murmur_do_not_count(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.logprob = -0.6
    speaker.say(0.5, clear=False)
    assert (await transcriber.finish(speaker.at)).text == ""


async def test_one_clear_syllable_makes_a_murmur_speech(
    transcriber: Transcriber, speaker: Speaker, clerk: Clerk
) -> None:
    clerk.logprob = -0.6
    speaker.say(0.25, clear=False)
    speaker.say(0.05)
    speaker.say(0.2, clear=False)
    assert (await transcriber.finish(speaker.at)).text == "w1 w2"


async def test_certain_words_count_even_in_a_murmur(transcriber: Transcriber, speaker: Speaker) -> None:
    speaker.say(0.5, clear=False)
    assert (await transcriber.finish(speaker.at)).text == "w1 w2"


async def test_without_a_turn_there_is_nothing_to_say(transcriber: Transcriber) -> None:
    transcriber.push(sound(0, RATE_HZ))
    assert transcriber.heard_s == 0
    assert await transcriber.finish(RATE_HZ) == Final("", RATE_HZ)


async def test_the_length_of_a_turn_is_told_in_seconds(transcriber: Transcriber, speaker: Speaker) -> None:
    speaker.say(1.5)
    assert transcriber.heard_s == 1.5
