"""The text-to-speech socket, with a scripted client and voice in place of the socket and the model."""

from __future__ import annotations

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosedOK

from pipeline.ports import Speech, StageError
from server.speech import MAX_LANES, serve_speech

MULTI = "/v1/text-to-speech/heart/multi-stream-input"
SINGLE = "/v1/text-to-speech/heart/stream-input"


class ToneVoice:
    """Speaks every character as 10 ms of sound; fails on "fail", and waits for ``ready`` when it is cleared."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.was_asked = asyncio.Event()
        self.ready = asyncio.Event()
        self.ready.set()

    async def speak(self, phrase: str, speed: float = 1.0) -> Speech:
        self.asked.append(phrase)
        self.was_asked.set()
        await self.ready.wait()
        if "fail" in phrase:
            raise StageError("speech", "the tone broke")
        count = len(phrase)
        starts = tuple(10 * index for index in range(count))
        return Speech(np.full(240 * count, 0.5, np.float32), 24_000, phrase, starts, (10,) * count)


class Wire:
    """The server's end of a socket: what the client sends is put in, what it gets is kept."""

    def __init__(self, target: str) -> None:
        self.request = SimpleNamespace(path=target)
        self.sent: list[dict[str, Any]] = []
        self.code: int | None = None
        self.takes = asyncio.Event()
        self.takes.set()
        self.final_sent = asyncio.Event()
        self._inbox: asyncio.Queue[str | Exception] = asyncio.Queue()

    def put(self, **message: Any) -> None:
        self._inbox.put_nowait(json.dumps(message))

    def leave(self) -> None:
        self._inbox.put_nowait(ConnectionClosedOK(None, None))

    async def recv(self) -> str:
        item = await self._inbox.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def send(self, message: str) -> None:
        await self.takes.wait()
        self.sent.append(json.loads(message))
        if self.sent[-1].get("isFinal"):
            self.final_sent.set()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.code = code

    def sound(self, context: str | None = None) -> bytes:
        own = [message for message in self.sent if message.get("contextId") == context and message.get("audio")]
        return b"".join(base64.b64decode(message["audio"]) for message in own)

    def finals(self, context: str | None = None) -> int:
        return sum(bool(message.get("isFinal")) and message.get("contextId") == context for message in self.sent)


async def serve(wire: Wire, voice: ToneVoice) -> None:
    await serve_speech(cast(ServerConnection, wire), voice)


async def test_a_single_text_is_spoken_finished_and_hung_up() -> None:
    wire = Wire(SINGLE)
    wire.put(text=" ", voice_settings=None)
    wire.put(text="Hello. You there? ")
    wire.put(text="")
    await serve(wire, ToneVoice())
    assert len(wire.sound()) == len("Hello. You there? ") * 480
    assert wire.sent[-1]["isFinal"] is True
    assert (wire.finals(), wire.code) == (1, 1000)


async def test_each_context_gets_its_own_sound_and_one_final_message() -> None:
    wire = Wire(MULTI)
    wire.put(text="One. ", context_id="a", flush=True)
    wire.put(text="Seven. ", context_id="b", flush=True)
    wire.put(context_id="a", close_context=True)
    wire.put(context_id="a", close_context=True)
    wire.put(close_socket=True)
    await serve(wire, ToneVoice())
    assert (len(wire.sound("a")), len(wire.sound("b"))) == (5 * 480, 7 * 480)
    assert (wire.finals("a"), wire.finals("b"), wire.code) == (1, 1, 1000)


async def test_the_sound_has_the_format_that_was_asked_for() -> None:
    wire = Wire(f"{SINGLE}?output_format=ulaw_8000")
    wire.put(text="Hello")
    wire.put(text="")
    await serve(wire, ToneVoice())
    assert len(wire.sound()) == len("Hello ") * 80


async def test_a_context_that_was_never_told_anything_is_finished_too() -> None:
    wire = Wire(MULTI)
    wire.put(text=" ", context_id="a")
    wire.put(context_id="a", close_context=True)
    wire.put(close_socket=True)
    await serve(wire, ToneVoice())
    assert (wire.sound("a"), wire.finals("a")) == (b"", 1)


async def test_an_immediate_close_stops_a_context_in_mid_phrase() -> None:
    wire, voice = Wire(MULTI), ToneVoice()
    voice.ready.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(wire, voice))
        wire.put(text="One. ", context_id="a", flush=True)
        wire.put(text="Two. ", context_id="a", flush=True)
        wire.put(context_id="a", close_context=True)
        await voice.was_asked.wait()
        wire.put(context_id="a", close_context=True, immediate=True)
        wire.put(close_socket=True)
    assert voice.asked == ["One. "]
    assert (wire.sound("a"), wire.finals("a")) == (b"", 1)


async def test_stopping_one_context_leaves_the_others_alone() -> None:
    wire, voice = Wire(MULTI), ToneVoice()
    voice.ready.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(wire, voice))
        wire.put(text="One. ", context_id="a", flush=True)
        wire.put(text="Two. ", context_id="b", flush=True)
        await voice.was_asked.wait()
        wire.put(context_id="a", close_context=True, immediate=True)
        wire.put(close_socket=True)
        voice.ready.set()
    assert (len(wire.sound("b")), wire.finals("a"), wire.finals("b")) == (5 * 480, 1, 1)


async def test_a_late_immediate_close_finishes_nothing_twice() -> None:
    wire = Wire(MULTI)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(wire, ToneVoice()))
        wire.put(text="One. ", context_id="a", close_context=True)
        await wire.final_sent.wait()
        wire.put(context_id="a", close_context=True, immediate=True)
        wire.put(close_socket=True)
    assert wire.finals("a") == 1


async def test_an_id_that_is_used_again_is_heard_after_its_former_self() -> None:
    wire = Wire(MULTI)
    wire.put(text="One. ", context_id="a", close_context=True)
    wire.put(text="Two. ", context_id="a", close_context=True)
    wire.put(close_socket=True)
    await serve(wire, ToneVoice())
    kinds = ["final" if message["isFinal"] else "audio" for message in wire.sent]
    assert kinds == ["audio", "final", "audio", "final"]


async def test_a_voice_that_fails_on_a_phrase_costs_that_phrase() -> None:
    wire = Wire(MULTI)
    wire.put(text="fail ", context_id="a", flush=True)
    wire.put(text="Two. ", context_id="a", close_context=True)
    wire.put(close_socket=True)
    await serve(wire, ToneVoice())
    assert wire.sent[0]["error"] == "generation_failed"
    assert "the tone broke" in wire.sent[0]["message"]
    assert (wire.sent[0]["contextId"], len(wire.sound("a")), wire.finals("a")) == ("a", 5 * 480, 1)


async def test_a_client_that_takes_nothing_gets_no_more_made_for_it() -> None:
    wire, voice = Wire(MULTI), ToneVoice()
    wire.takes.clear()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve(wire, voice))
        for _ in range(3):
            wire.put(text="One. ", context_id="a", flush=True)
        for _ in range(100):
            await asyncio.sleep(0)
        assert voice.asked == ["One. "]
        serving.cancel()


async def test_many_closed_contexts_wait_for_each_other_and_all_are_heard() -> None:
    wire, voice = Wire(MULTI), ToneVoice()
    for number in range(2 * MAX_LANES):
        wire.put(text="One. ", context_id=str(number), close_context=True)
    wire.put(close_socket=True)
    await serve(wire, voice)
    assert all(wire.finals(str(number)) == 1 for number in range(2 * MAX_LANES))


async def test_an_unserved_format_is_refused_with_a_reason() -> None:
    wire = Wire(f"{SINGLE}?output_format=mp3_44100_128")
    await serve(wire, ToneVoice())
    assert wire.sent[0]["error"] == "unsupported_output_format"
    assert (wire.sent[0]["code"], wire.code) == (1008, 1008)


async def test_a_broken_message_ends_the_connection_and_what_it_was_saying() -> None:
    wire, voice = Wire(MULTI), ToneVoice()
    voice.ready.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(wire, voice))
        wire.put(text="One. ", context_id="a", flush=True)
        await voice.was_asked.wait()
        wire.put(text=5)
    assert [message.get("error") for message in wire.sent] == ["invalid_message"]
    assert wire.code == 1008


async def test_a_client_that_leaves_takes_its_tasks_with_it() -> None:
    wire, voice = Wire(MULTI), ToneVoice()
    voice.ready.clear()
    before = asyncio.all_tasks()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(wire, voice))
        wire.put(text="One. ", context_id="a", flush=True)
        await voice.was_asked.wait()
        wire.leave()
    assert asyncio.all_tasks() == before
    assert wire.sent == []


@pytest.mark.looptime
async def test_a_silent_client_is_left_after_its_timeout() -> None:
    wire = Wire(f"{SINGLE}?inactivity_timeout=30")
    began = asyncio.get_running_loop().time()
    wire.put(text="Hi")
    await serve(wire, ToneVoice())
    assert asyncio.get_running_loop().time() - began == pytest.approx(30)
    assert (wire.sent[-1]["error"], wire.code) == ("input_timeout_exceeded", 1008)
