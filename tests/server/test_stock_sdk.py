"""The stock OpenAI SDK against the server, on the real embedded models."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from audio.wav import read_recording
from pipeline.backends.loader import Models
from pipeline.config import Config, ServerConfig, load_config
from server.app import Server
from server.speech import serve_speech
from server.voices.hibari import HibariVoice
from tests.server.asking import WIRE, Heard, ask, client, listen, question, stream

pytestmark = pytest.mark.models


async def test_a_spoken_question_is_transcribed_and_answered_aloud(models: Models, voice: HibariVoice) -> None:
    async with (
        Server(Config(), models=models, voice=voice) as server,
        client(server).realtime.connect(model="m") as it,
    ):
        heard = await ask(it, await question(voice, "What is the capital of France?"))
    assert "capital of france" in heard.transcript.lower()
    assert heard.responses[0].status == "completed"
    assert heard.audio_bytes > 24_000
    assert heard.responses[0].output[0].content[0].transcript


async def test_events_of_a_spoken_turn_come_in_the_order_clients_rely_on(
    models: Models, voice: HibariVoice
) -> None:
    async with (
        Server(Config(), models=models, voice=voice) as server,
        client(server).realtime.connect(model="m") as it,
    ):
        heard = await ask(it, await question(voice, "How many days are in a week?"))
    heard_words = "conversation.item.input_audio_transcription.delta"  # come as soon as they are certain
    parts = {heard_words, "response.output_audio.delta", "response.output_audio_transcript.delta"}
    first_of_each = list(dict.fromkeys(event.type for event in heard.events))
    assert parts <= set(first_of_each)
    assert first_of_each.index(heard_words) > first_of_each.index("input_audio_buffer.speech_started")
    assert [kind for kind in first_of_each if kind not in parts] == [
        "session.created",
        "session.updated",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]


async def _type(connection: Any, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})


async def test_typed_words_are_answered_in_text(models: Models, voice: HibariVoice) -> None:
    async with (
        Server(Config(), models=models, voice=voice) as server,
        client(server).realtime.connect(model="m") as it,
    ):
        await _type(it, "What is two plus two?")
        await it.response.create(response={"output_modalities": ["text"], "metadata": {"ask": "1"}})
        heard = await listen(it, "response.done", Heard())
    assert heard.responses[0].output[0].content[0].text
    assert heard.responses[0].metadata == {"ask": "1"}
    assert not heard.audio_bytes


async def test_a_cancelled_response_ends_as_cancelled_and_the_session_goes_on(
    models: Models, voice: HibariVoice
) -> None:
    async with (
        Server(Config(), models=models, voice=voice) as server,
        client(server).realtime.connect(model="m") as it,
    ):
        await _type(it, "Tell me a long story about the sea.")
        await it.response.create()
        heard = await listen(it, "response.output_audio.delta", Heard())
        await it.response.cancel()
        await listen(it, "response.done", heard)
        await _type(it, "What is two plus two?")
        await it.response.create(response={"output_modalities": ["text"]})
        await listen(it, "response.done", heard)
    assert [response.status for response in heard.responses] == ["cancelled", "completed"]
    assert heard.responses[0].status_details.reason == "client_cancelled"


async def test_a_reading_is_answered_and_another_one_over_the_answer_cancels_it_and_is_answered(
    models: Models, voice: HibariVoice, readings: list[Path]
) -> None:
    reading, interruption = (WIRE.encode(read_recording(path).samples) for path in readings)
    async with (
        Server(Config(), models=models, voice=voice) as server,
        client(server).realtime.connect(model="m") as it,
    ):
        await it.session.update(session={"type": "realtime", "instructions": "Answer with a long story."})
        heard = await ask(it, reading, "response.output_audio.delta")
        talking = asyncio.create_task(stream(it, interruption, len(interruption) / 48_000 + 20))
        await listen(it, "response.done", heard)
        while heard.responses[-1].status != "completed":
            await listen(it, "response.done", heard)
        talking.cancel()
        await asyncio.wait([talking])
    assert "best of times" in heard.transcript.lower()
    assert "tried" in heard.transcript.lower()
    assert heard.responses[0].status == "cancelled"
    assert heard.responses[0].status_details.reason == "turn_detected"


async def test_a_speech_server_killed_in_mid_reply_fails_that_turn_and_the_next_one_works(
    models: Models, voice: HibariVoice
) -> None:
    speaking = await serve(lambda connection: serve_speech(connection, voice), "127.0.0.1", 0)
    port = next(iter(speaking.sockets)).getsockname()[1]
    config = load_config(overrides={"speech.url": f"ws://127.0.0.1:{port}"})
    async with (
        Server(config, models=models, voice=voice) as server,
        client(server).realtime.connect(model="m") as it,
    ):
        await _type(it, "Tell me a long story about the sea.")
        await it.response.create()
        heard = await listen(it, "response.output_audio.delta", Heard())
        speaking.close()
        await speaking.wait_closed()
        await listen(it, "response.done", heard)
        again = await serve(lambda connection: serve_speech(connection, voice), "127.0.0.1", port)
        await _type(it, "What is two plus two?")
        await it.response.create()
        await listen(it, "response.done", heard)
        again.close()
        await again.wait_closed()
    assert [response.status for response in heard.responses] == ["failed", "completed"]
    assert "speech" in heard.responses[0].status_details.error.message


async def test_a_client_killed_in_mid_turn_leaves_nothing_behind(models: Models, voice: HibariVoice) -> None:
    roomy = Config(server=ServerConfig(full_share=9.0))  # the models have been busy with other tests
    async with Server(roomy, models=models, voice=voice) as server:
        await (await connect(server.realtime_url)).close()
        before = _holdings()
        for _ in range(3):
            socket = await connect(server.realtime_url)
            await socket.send('{"type":"response.create"}')
            await socket.recv()
            socket.transport.abort()
            await socket.wait_closed()
        async with asyncio.timeout(20):
            while server.sessions or _holdings()["tasks"] > before["tasks"]:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.05)
        assert all(now <= before[what] for what, now in _holdings().items())


def _holdings() -> dict[str, int]:
    gc.collect()
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    return {"tasks": tasks, "threads": threads, "files": psutil.Process().num_fds()}
