"""A reply on its way to speech, over a real socket to a scripted server."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from pipeline import speech_context
from pipeline.frames import SpokenAudio, WordTime
from pipeline.ports import StageError
from pipeline.speak import SpeechLink
from pipeline.speech_context import SpeechContext
from pipeline.speech_wire import Alignment, WordTimes, stream_url

Answer = Callable[["Speaker", dict[str, Any]], Awaitable[None]]


class Speaker:
    """The server's end: answers each message as its script says, and keeps what came."""

    def __init__(self, answer: Answer) -> None:
        self.received: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.dropped = asyncio.Event()
        self.url = ""
        self.socket: ServerConnection
        self._answer = answer

    async def __call__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.paths.append(socket.request.path if socket.request else "")
        try:
            async for raw in socket:
                self.received.append(json.loads(raw))
                if self.received[-1].get("immediate"):
                    self.dropped.set()
                await self._answer(self, self.received[-1])
        except ConnectionClosed:
            pass

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def say(self, context: str, text: str, ms: int = 100) -> None:
        """The text as ``ms`` of sound, shared by its characters alike."""
        each = ms / len(text)
        alignment = {
            "chars": list(text),
            "charStartTimesMs": [each * index for index in range(len(text))],
            "charDurationsMs": [each] * len(text),
        }
        sound = base64.b64encode(bytes(48 * ms)).decode()
        await self.send(audio=sound, isFinal=None, contextId=context, alignment=alignment)


async def echo(speaker: Speaker, message: dict[str, Any]) -> None:
    """Every phrase is 100 ms long."""
    name = message["context_id"]
    if message.get("text"):
        await speaker.say(name, message["text"])
    if message.get("close_context"):
        await speaker.send(contextId=name, isFinal=True, audio=None)


async def nothing(speaker: Speaker, message: dict[str, Any]) -> None:
    """The server listens and is silent."""


@asynccontextmanager
async def linked(answer: Answer) -> AsyncIterator[tuple[Speaker, SpeechLink]]:
    speaker = Speaker(answer)
    async with serve(speaker, "127.0.0.1", 0) as server:
        host, port = next(iter(server.sockets)).getsockname()
        async with SpeechLink(f"ws://{host}:{port}", "heart") as link:
            yield speaker, link


async def hear(context: SpeechContext) -> list[SpokenAudio]:
    return [piece async for piece in context.audio()]


async def round_trip(link: SpeechLink) -> None:
    """What the server was sent before has been answered after this."""
    context = await link.open("round trip")
    await context.say("Yes.")
    await context.finish()
    await hear(context)


async def test_tokens_become_phrases_and_phrases_sound() -> None:
    async with linked(echo) as (speaker, link):
        reply = await link.open("reply")
        for token in ["**Sure", "!**", " I", " can", " help", " 🙂", "."]:
            await reply.say(token)
        await reply.finish()
        pieces = await hear(reply)
    assert [message.get("text") for message in speaker.received] == ["Sure! ", "I can help . ", None]
    assert all(message["flush"] for message in speaker.received[:-1])
    assert (len(pieces), pieces[0].rate_hz, pieces[0].duration_ms) == (2, 24_000, 100)


async def test_a_reply_that_was_expected_finds_the_connection_open() -> None:
    async with linked(echo) as (speaker, link):
        link.connect_ahead()
        link.connect_ahead()
        await round_trip(link)
        link.connect_ahead()
        await round_trip(link)
        assert len(speaker.paths) == 1


async def test_a_server_that_is_down_fails_the_reply_and_not_what_was_done_ahead() -> None:
    async with SpeechLink("ws://127.0.0.1:1", "heart") as link:
        link.connect_ahead()
        with pytest.raises(StageError, match="cannot connect"):
            await link.open("reply")


async def test_a_session_that_ends_while_it_connects_ahead_ends_at_once() -> None:
    async with linked(nothing) as (speaker, link):
        link.connect_ahead()
        await asyncio.sleep(0)
    assert speaker.received == []


async def test_words_are_timed_from_the_start_of_the_reply() -> None:
    async with linked(echo) as (_, link):
        reply = await link.open("reply")
        await reply.say("Oh no! Ah. ")
        await reply.finish()
        words = [word for piece in await hear(reply) for word in piece.words]
    # "Oh no! " are seven characters in 100 ms, "Ah. " are four.
    ms = [(word.text, round(word.start / 24), round(word.end / 24)) for word in words]
    assert ms == [("Oh", 0, 29), ("no!", 43, 86), ("Ah.", 100, 175)]


async def test_the_marks_for_the_latency_record_are_set_in_order() -> None:
    async with linked(echo) as (_, link):
        reply = await link.open("reply")
        assert (reply.first_phrase_at, reply.first_audio_at) == (None, None)
        await reply.say("Yes. No. ")
        await reply.finish()
        await hear(reply)
        assert reply.first_phrase_at is not None
        assert reply.first_audio_at is not None
        assert reply.first_phrase_at <= reply.first_audio_at


async def test_a_reply_without_a_word_ends_without_the_server() -> None:
    async with linked(echo) as (speaker, link):
        reply = await link.open("reply")
        await reply.say("<think>nothing</think>")
        await reply.finish()
        assert await hear(reply) == []
    assert speaker.received == []


async def test_two_contexts_do_not_mix() -> None:
    async with linked(echo) as (_, link):
        first, second = await link.open("a"), await link.open("b")
        await first.say("One.")
        await second.say("Two. Three.")
        await first.finish()
        await second.finish()
        assert [len(await hear(context)) for context in (first, second)] == [1, 2]


async def test_nothing_arrives_after_a_cancel() -> None:
    async with linked(echo) as (speaker, link):
        reply = await link.open("reply")
        await reply.say("One. Two. Three.")
        await reply.cancel()
        await reply.say("Four. Five. Six.")
        assert await hear(reply) == []
        await speaker.dropped.wait()
    assert speaker.received[-1] == {"context_id": reply.name, "close_context": True, "immediate": True}


async def test_a_context_of_the_same_name_hears_nothing_of_the_cancelled_one() -> None:
    async with linked(echo) as (_, link):
        old = await link.open("reply")
        await old.say("One. Two. Three.")
        await old.cancel()
        new = await link.open("reply")
        await new.say("Four.")
        await new.finish()
        assert len(await hear(new)) == 1


async def test_a_listener_that_waits_is_released_by_a_cancel() -> None:
    async with linked(nothing) as (_, link), asyncio.TaskGroup() as tasks:
        reply = await link.open("reply")
        await reply.say("One. Two.")
        heard = tasks.create_task(hear(reply))
        await asyncio.sleep(0)
        await reply.cancel()
    assert heard.result() == []


async def test_text_waits_while_enough_audio_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_context, "ENOUGH_AUDIO_MS", 100.0)
    async with linked(echo) as (speaker, link), asyncio.TaskGroup() as tasks:
        reply = await link.open("reply")
        await reply.say("One. Two")
        await round_trip(link)  # so the first phrase's audio is here
        saying = tasks.create_task(reply.say(". Three"))
        await round_trip(link)
        said = [message.get("text") for message in speaker.received if message["context_id"] == reply.name]
        assert said == ["One. "]
        async for _ in reply.audio():
            await reply.finish() if saying.done() else await saying


async def test_audio_that_nobody_takes_fails_its_context_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_context, "MAX_AUDIO_MS", 250.0)
    async with linked(echo) as (_, link):
        stuck, other = await link.open("stuck"), await link.open("other")
        await stuck.say("One. Two. Three. Four. Five.")
        await other.say("One.")
        await other.finish()
        assert len(await hear(other)) == 1
        with pytest.raises(StageError, match="wait to be taken"):
            await hear(stuck)


async def test_an_error_of_a_context_fails_that_context_and_has_it_dropped() -> None:
    async def fail(speaker: Speaker, message: dict[str, Any]) -> None:
        if message["context_id"].startswith("bad") and message.get("text"):
            await speaker.send(error="generation_failed", message="no voice", contextId=message["context_id"])
        else:
            await echo(speaker, message)

    async with linked(fail) as (speaker, link):
        bad, good = await link.open("bad"), await link.open("good")
        await bad.say("One. Two.")
        with pytest.raises(StageError, match="no voice"):
            await hear(bad)
        with pytest.raises(StageError, match="no voice"):
            await bad.say("Three.")
        await good.say("One.")
        await good.finish()
        assert len(await hear(good)) == 1
        await speaker.dropped.wait()


@pytest.mark.parametrize("message", [{"error": "quota_exceeded", "message": "pay first"}, {"audio": 5}])
async def test_an_error_of_the_connection_fails_everything_on_it(message: dict[str, Any]) -> None:
    async def refuse(speaker: Speaker, _: dict[str, Any]) -> None:
        await speaker.send(**message)

    async with linked(refuse) as (_, link):
        first, second = await link.open("a"), await link.open("b")
        await first.say("One. Two.")
        for context in (first, second):
            with pytest.raises(StageError, match=r"pay first|none of this protocol"):
                await hear(context)


async def test_a_lost_connection_fails_what_was_on_it_and_the_next_reply_connects_anew() -> None:
    async def die(speaker: Speaker, message: dict[str, Any]) -> None:
        if len(speaker.paths) == 1:
            speaker.socket.transport.abort()
        else:
            await echo(speaker, message)

    async with linked(die) as (speaker, link):
        lost = await link.open("reply")
        await lost.say("One. Two.")
        with pytest.raises(StageError, match="lost"):
            await hear(lost)
        with pytest.raises(StageError, match="lost"):
            await lost.say("Three.")
        await lost.cancel()
        again = await link.open("reply")
        await again.say("One.")
        await again.finish()
        assert len(await hear(again)) == 1
    assert len(speaker.paths) == 2


async def test_no_server_is_a_failure_of_the_stage_that_names_it() -> None:
    async with SpeechLink("ws://127.0.0.1:1?api=secret", "heart") as link:
        with pytest.raises(StageError, match=r"ws://127.0.0.1:1/v1/text-to-speech/heart") as caught:
            await link.open("reply")
    assert "secret" not in str(caught.value)


async def test_leaving_ends_the_contexts_and_the_reader() -> None:
    before = asyncio.all_tasks()
    speaker = Speaker(nothing)
    async with serve(speaker, "127.0.0.1", 0) as server:
        host, port = next(iter(server.sockets)).getsockname()
        async with SpeechLink(f"ws://{host}:{port}", "heart") as link:
            reply = await link.open("reply")
        with pytest.raises(StageError, match="ended"):
            await hear(reply)
    assert asyncio.all_tasks() == before


async def test_an_error_in_the_body_leaves_the_link_as_it_is() -> None:
    async def body() -> None:
        async with linked(nothing) as (_, link):
            await link.open("reply")
            raise StageError("test", "mine")

    with pytest.raises(StageError, match="mine"):
        await body()


def test_the_url_asks_for_raw_sound_and_keeps_its_own_query() -> None:
    url = stream_url("wss://api.example.com/v1/?model_id=m", "a voice", 16_000)
    path, _, query = url.partition("?")
    assert path == "wss://api.example.com/v1/text-to-speech/a%20voice/multi-stream-input"
    assert {"model_id=m", "output_format=pcm_16000", "auto_mode=true"} <= set(query.split("&"))


def test_a_word_may_be_spread_over_messages() -> None:
    words = WordTimes(1_000)
    first = Alignment.model_validate({"chars": ["H"], "charStartTimesMs": [0], "charDurationsMs": [40]})
    second = Alignment.model_validate(
        {"chars": ["i", " "], "charStartTimesMs": [0, 50], "charsDurationsMs": [50, 9]}
    )
    assert words.push(first, 0) == ()
    assert words.push(second, 40) == (WordTime("Hi", 0, 90),)
    assert words.finish() == ()
