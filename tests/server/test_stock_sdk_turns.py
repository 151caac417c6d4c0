"""The stock OpenAI SDK on the real models, where the client decides: push to talk, tools, telephone sound."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from audio.format import AudioFormat
from audio.resample import resample
from audio.wav import read_recording
from clients.demo import READINGS
from pipeline.backends.loader import Models
from pipeline.config import Config
from pipeline.store import Store
from server.app import Server
from server.voices.hibari import HibariVoice
from tests.server.asking import WIRE, Heard, client, listen

pytestmark = pytest.mark.models

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@asynccontextmanager
async def connected(models: Models, voice: HibariVoice, **settings: Any) -> AsyncIterator[Any]:
    """A session that hears nothing by itself and transcribes what is committed."""
    async with (
        Server(Config(), models=models, voice=voice) as server,
        client(server).realtime.connect(model="m") as connection,
    ):
        sound = {"transcription": {"model": "whisper-1"}, "turn_detection": None, **settings.pop("input", {})}
        session = {"type": "realtime", "audio": {"input": sound, **settings.pop("audio", {})}, **settings}
        await connection.session.update(session=session)
        yield connection


def reading(store: Store, rate_hz: int) -> np.ndarray:
    """A phrase read by a person."""
    name, start_s, end_s = READINGS[0]
    whole = read_recording(store.path("demo-recordings") / name)
    said = whole.samples[round(start_s * whole.rate_hz) : round(end_s * whole.rate_hz)]
    return resample(said, whole.rate_hz, rate_hz)


async def push(connection: Any, data: bytes) -> None:
    """All of the sound at once, in pieces of odd length, and the button let go."""
    for start in range(0, len(data), 4_801):
        piece = base64.b64encode(data[start : start + 4_801]).decode()
        await connection.input_audio_buffer.append(audio=piece)
    await connection.input_audio_buffer.commit()


async def test_a_reading_that_is_pushed_to_talk_is_transcribed_and_answered(
    models: Models, voice: HibariVoice, store: Store
) -> None:
    async with connected(models, voice) as it:
        await push(it, WIRE.encode(reading(store, 24_000)))
        await it.response.create()
        heard = await listen(it, "response.done", Heard())
    assert "best of times" in heard.transcript.lower()
    assert heard.responses[0].usage.output_tokens > 0
    assert heard.audio_bytes > 24_000
    assert "input_audio_buffer.speech_started" not in heard.kinds


@pytest.mark.parametrize("encoding", ["pcmu", "pcma"])
async def test_telephone_sound_is_understood_and_spoken(
    encoding: Any, models: Models, voice: HibariVoice, store: Store
) -> None:
    wire = {"type": f"audio/{encoding}"}
    async with connected(models, voice, input={"format": wire}, audio={"output": {"format": wire}}) as it:
        await push(it, AudioFormat(encoding, 8_000).encode(reading(store, 8_000)))
        await it.response.create()
        heard = await listen(it, "response.done", Heard())
        spoken = [base64.b64decode(e.delta) for e in heard.events if e.type == "response.output_audio.delta"]
        sound = AudioFormat(encoding, 8_000).decode(b"".join(spoken))
        words = await models.recogniser.recognise(resample(sound, 8_000, 16_000))
    assert "best of times" in heard.transcript.lower()
    said = heard.responses[0].output[0].content[0].transcript.lower().split()
    assert set(words.text.lower().replace(".", "").replace(",", "").split()) & set(said)


async def test_a_tool_is_called_and_its_output_answered(models: Models, voice: HibariVoice) -> None:
    async with connected(models, voice, tools=[WEATHER], output_modalities=["text"]) as it:
        content = [{"type": "input_text", "text": "What is the weather in Paris?"}]
        await it.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        choice = {"type": "function", "name": "get_weather"}
        await it.response.create(response={"tool_choice": choice})
        heard = await listen(it, "response.done", Heard())
        call = heard.responses[0].output[0]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny, 20 degrees."}
        await it.conversation.item.create(item=output)
        await it.response.create(response={"tools": []})
        heard = await listen(it, "response.done", heard)
    assert (call.type, call.name, json.loads(call.arguments)) == (
        "function_call",
        "get_weather",
        {"city": "Paris"},
    )
    assert heard.responses[1].output[0].content[0].text


async def test_a_reply_of_which_less_was_played_is_remembered_shorter(models: Models, voice: HibariVoice) -> None:
    async with connected(models, voice) as it:
        content = [{"type": "input_text", "text": "Count from one to ten."}]
        await it.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await it.response.create()
        heard = await listen(it, "response.done", Heard())
        item = heard.responses[0].output[0]
        await it.conversation.item.truncate(item_id=item.id, content_index=0, audio_end_ms=1_000)
        await it.conversation.item.retrieve(item_id=item.id)
        heard = await listen(it, "conversation.item.retrieved", heard)
    whole, kept = item.content[0].transcript, heard.events[-1].item.content[0].transcript
    assert 0 < len(kept.split()) < len(whole.split())


async def test_sound_in_an_item_is_transcribed_and_answered(
    models: Models, voice: HibariVoice, store: Store
) -> None:
    async with connected(models, voice, output_modalities=["text"]) as it:
        sound = base64.b64encode(WIRE.encode(reading(store, 24_000))).decode()
        content = [{"type": "input_audio", "audio": sound}]
        await it.conversation.item.create(
            item={"id": "heard", "type": "message", "role": "user", "content": content}
        )
        await it.response.create()
        heard = await listen(it, "response.done", Heard())
        await it.conversation.item.retrieve(item_id="heard")
        heard = await listen(it, "conversation.item.retrieved", heard)
    assert "best of times" in heard.transcript.lower()
    assert heard.events[-1].item.content[0].transcript == heard.transcript
    assert heard.responses[0].output[0].content[0].text
