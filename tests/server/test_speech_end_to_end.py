"""A reply's text in, its audio out: the pipeline's client, a real socket, the server and the built-in voice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from websockets.asyncio.server import Server, serve

from audio.format import AudioFormat
from audio.resample import resample
from pipeline.frames import SpokenAudio
from pipeline.ports import Speech, StageError
from pipeline.speak import SpeechLink
from pipeline.speech_context import SpeechContext
from server.speech import serve_speech
from server.voices.hibari import HibariVoice

REPLY = "The capital of **France** is Paris, and it lies on the Seine. Shall I say more? 🙂"
PHRASES = ["The capital of France ", "is Paris, and it lies on the Seine. ", "Shall I say more? "]


class CountingVoice:
    """The built-in voice, and what it was asked for."""

    def __init__(self, voice: HibariVoice) -> None:
        self.asked: list[str] = []
        self._voice = voice

    async def speak(self, phrase: str, speed: float = 1.0) -> Speech:
        self.asked.append(phrase)
        return await self._voice.speak(phrase, speed)


@pytest.fixture(scope="module")
def hibari() -> Iterator[HibariVoice]:
    voice = HibariVoice()
    yield voice
    voice.close()


@pytest.fixture
def voice(hibari: HibariVoice) -> CountingVoice:
    return CountingVoice(hibari)


@asynccontextmanager
async def serving(voice: CountingVoice, port: int = 0) -> AsyncIterator[tuple[Server, int]]:
    async with serve(lambda connection: serve_speech(connection, voice), "127.0.0.1", port) as server:
        yield server, next(iter(server.sockets)).getsockname()[1]


async def tell(context: SpeechContext, text: str) -> None:
    for token in text.split(" "):
        await context.say(f"{token} ")
    await context.finish()


async def hear(context: SpeechContext) -> list[SpokenAudio]:
    return [piece async for piece in context.audio()]


@pytest.mark.parametrize("rate_hz", [24_000, 16_000, 44_100])
async def test_a_reply_is_heard_as_the_voice_speaks_its_phrases(voice: CountingVoice, rate_hz: int) -> None:
    async with serving(voice) as (_, port), SpeechLink(f"ws://127.0.0.1:{port}", "heart", rate_hz) as link:
        reply = await link.open("reply")
        await tell(reply, REPLY)
        heard = b"".join(piece.pcm for piece in await hear(reply))
    assert voice.asked == PHRASES
    spoken = [(await voice.speak(phrase)).samples for phrase in PHRASES]
    audio = AudioFormat("pcm16", rate_hz)
    assert heard == b"".join(audio.encode(resample(samples, 24_000, rate_hz)) for samples in spoken)


async def test_every_word_is_timed_within_the_audio_and_in_order(voice: CountingVoice) -> None:
    async with serving(voice) as (_, port), SpeechLink(f"ws://127.0.0.1:{port}", "heart") as link:
        reply = await link.open("reply")
        await tell(reply, REPLY)
        pieces = await hear(reply)
    words = [word for piece in pieces for word in piece.words]
    times = np.array([(word.start, word.end) for word in words])
    assert " ".join(word.text for word in words) == "".join(PHRASES).strip()
    assert (np.diff(times.ravel()) >= 0).all()
    assert times[-1, 1] <= sum(len(piece.pcm) // 2 for piece in pieces)


async def test_a_faster_reply_is_shorter_and_says_the_same(voice: CountingVoice) -> None:
    lengths_ms = []
    async with serving(voice) as (_, port), SpeechLink(f"ws://127.0.0.1:{port}", "heart") as link:
        for speed in (1.0, 1.2):
            reply = await link.open("reply", speed)
            await tell(reply, REPLY)
            lengths_ms.append(sum(piece.duration_ms for piece in await hear(reply)))
    assert voice.asked == PHRASES * 2
    assert lengths_ms[1] == pytest.approx(lengths_ms[0] / 1.2, rel=0.1)


async def test_a_draft_and_a_reply_share_the_socket(voice: CountingVoice) -> None:
    async with serving(voice) as (_, port), SpeechLink(f"ws://127.0.0.1:{port}", "heart") as link:
        reply, draft = await link.open("reply"), await link.open("draft")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(tell(reply, "One is heard. "))
            tasks.create_task(tell(draft, "Two is not. "))
            heard = tasks.create_task(hear(reply))
        await draft.cancel()
        assert await hear(draft) == []
    assert sum(piece.duration_ms for piece in heard.result()) > 500


async def test_an_unserved_rate_fails_the_reply_with_the_servers_words(voice: CountingVoice) -> None:
    async with serving(voice) as (_, port), SpeechLink(f"ws://127.0.0.1:{port}", "heart", 12_345) as link:
        reply = await link.open("reply")
        with pytest.raises(StageError, match="pcm_12345"):
            await hear(reply)


async def test_a_server_killed_in_mid_reply_fails_it_and_the_next_reply_works(voice: CountingVoice) -> None:
    async with serving(voice) as (server, port), SpeechLink(f"ws://127.0.0.1:{port}", "heart") as link:
        lost = await link.open("reply")
        await lost.say(REPLY)
        sound = lost.audio()
        await anext(sound)
        server.close()
        await server.wait_closed()
        with pytest.raises(StageError, match=r"closed the connection|lost"):
            await hear(lost)
        with pytest.raises(StageError, match="cannot connect"):
            await link.open("reply")
        async with serving(voice, port):
            again = await link.open("reply")
            await tell(again, "I am back. ")
            assert await hear(again)
