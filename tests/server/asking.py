"""A user of the stock OpenAI SDK who asks in the project's own voice, in real time."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from openai import AsyncOpenAI

from audio.format import AudioFormat
from server.app import Server
from server.voices.hibari import HibariVoice

WIRE = AudioFormat("pcm16", 24_000)
STEP_MS = 20
STEP_BYTES = 960


@dataclass
class Heard:
    """What came back."""

    events: list[Any] = field(default_factory=list)

    @property
    def kinds(self) -> Counter[str]:
        return Counter(event.type for event in self.events)

    @property
    def transcript(self) -> str:
        done = "conversation.item.input_audio_transcription.completed"
        return " ".join(event.transcript for event in self.events if event.type == done)

    @property
    def audio_bytes(self) -> int:
        deltas = [event.delta for event in self.events if event.type == "response.output_audio.delta"]
        return sum(len(base64.b64decode(delta)) for delta in deltas)

    @property
    def responses(self) -> list[Any]:
        return [event.response for event in self.events if event.type == "response.done"]


async def question(voice: HibariVoice, text: str) -> bytes:
    """Spoken words with half a second of silence in front, as PCM at 24 kHz."""
    speech = await voice.speak(text)
    return WIRE.encode(np.concatenate((np.zeros(12_000, np.float32), speech.samples)))


def client(server: Server) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="unused", base_url=f"http://127.0.0.1:{server.port}/v1")


async def stream(connection: Any, pcm: bytes, seconds: float) -> None:
    """Send the sound in real time, then silence, for so long in all."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for step in range(int(seconds * 1000 / STEP_MS)):
        piece = pcm[step * STEP_BYTES : (step + 1) * STEP_BYTES].ljust(STEP_BYTES, b"\0")
        await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        await asyncio.sleep(begin + (step + 1) * STEP_MS / 1000 - loop.time())


async def listen(connection: Any, until: str, heard: Heard, deadline_s: float = 60) -> Heard:
    """Collect events up to and including one of this type."""
    async with asyncio.timeout(deadline_s):
        async for event in connection:
            heard.events.append(event)
            if event.type == until:
                return heard
    raise AssertionError(f"the connection ended before {until}: {heard.kinds}")


async def ask(connection: Any, pcm: bytes, until: str = "response.done") -> Heard:
    """Speak and listen at once until the reply is there."""
    transcription = {"audio": {"input": {"transcription": {"model": "whisper-1"}}}}
    await connection.session.update(session={"type": "realtime", **transcription})
    talking = asyncio.create_task(stream(connection, pcm, len(pcm) / 48_000 + 20))
    try:
        return await listen(connection, until, Heard())
    finally:
        talking.cancel()
        await asyncio.wait([talking])
