"""Text in, audio out: the ElevenLabs stream-input protocol over a WebSocket, for any Voice.

The protocol itself is in speech_protocol.py, without a socket; here is what waits. Every context has a lane: one
task that speaks its phrases one after the other. A lane asks for the next phrase only when the last one has been
taken by the socket, so a slow client slows its own speech and nothing piles up; lanes take turns at the voice.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from pipeline.channel import Channel
from pipeline.ports import EchoicError, Voice
from server.speech_messages import audio_message, cut_speech, error_message, final_message
from server.speech_protocol import (
    Action,
    Drop,
    Finish,
    HangUp,
    ProtocolError,
    Speak,
    SpeechProtocol,
    SpeechRequest,
    matches,
)

__all__ = ["matches", "serve_speech"]

# Contexts that still have something to say. The protocol limits the open ones to fewer; above this many with the
# closed ones, the client's messages wait.
MAX_LANES = 16
# Text that waits for the voice, in characters a lane: some twenty minutes of speech. Above that, messages wait.
MAX_WAITING_TEXT = 20_000


async def serve_speech(connection: ServerConnection, voice: Voice) -> None:
    """Speak for one client until it leaves, is finished or breaks the protocol.

    Every ``voice_id`` in the path means ``voice``. When the voice fails on a phrase, the client gets an error for
    that context and the rest of its text is spoken. Raises only for bugs.
    """
    try:
        request = SpeechRequest.parse(connection.request.path if connection.request else "")
    except ProtocolError as error:
        with suppress(ConnectionClosed):
            await _hang_up(connection, error)
        return
    try:
        await _SpeechSession(connection, voice, request).run()
    except* ConnectionClosed:
        pass  # the client has left; its lanes are cancelled by now


async def _hang_up(connection: ServerConnection, error: ProtocolError | None) -> None:
    if error is None:
        await connection.close()
        return
    await connection.send(error_message(str(error), error.error))
    await connection.close(1008, error.error)


@dataclass(frozen=True, slots=True)
class _Lane:
    phrases: Channel[Speak]
    task: asyncio.Task[None]


class _SpeechSession:
    """One client's connection: reads its messages, and owns a lane for every context that has something to say."""

    def __init__(self, connection: ServerConnection, voice: Voice, request: SpeechRequest) -> None:
        self._connection = connection
        self._voice = voice
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._protocol = SpeechProtocol(request, self._loop.time())
        self._tasks = asyncio.TaskGroup()
        self._lanes: dict[str, _Lane] = {}

    async def run(self) -> None:
        async with self._tasks:
            error = await self._read()
        await _hang_up(self._connection, error)

    async def _read(self) -> ProtocolError | None:
        """Perform what the client asks for until it ends the connection, or breaks it by an error."""
        while True:
            try:
                actions = await self._next_actions()
            except ProtocolError as error:
                for lane in self._lanes.values():
                    lane.task.cancel()
                return error
            for action in actions:
                if isinstance(action, HangUp):
                    return action.error
                await self._perform(action)

    async def _next_actions(self) -> list[Action]:
        try:
            async with asyncio.timeout_at(self._protocol.deadline):
                raw = await self._connection.recv()
        except TimeoutError:
            return self._protocol.expire(self._loop.time())
        return self._protocol.receive(raw, self._loop.time())

    async def _perform(self, action: Speak | Finish | Drop) -> None:
        match action:
            case Speak(context):
                await (await self._lane(context)).phrases.send(action)
            case Finish(context):
                await (await self._lane(context)).phrases.close()
            case Drop(context):
                await self._drop(context)

    async def _lane(self, context: str) -> _Lane:
        """The context's open lane; makes one, once a former context of this name has said its last."""
        lane = self._lanes.get(context)
        if lane is not None and not lane.phrases.closed:
            return lane
        if lane is not None:
            await asyncio.wait([lane.task])
        while len(self._lanes) >= MAX_LANES:
            tasks = [lane.task for lane in self._lanes.values()]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        phrases = Channel[Speak](f"speech {context}", MAX_WAITING_TEXT, size=lambda phrase: len(phrase.text))
        lane = _Lane(phrases, self._tasks.create_task(self._run_lane(context, phrases)))
        lane.task.add_done_callback(lambda _task: self._lanes.pop(context))
        self._lanes[context] = lane
        return lane

    async def _drop(self, context: str) -> None:
        if lane := self._lanes.get(context):
            lane.task.cancel()
            await asyncio.wait([lane.task])
            await self._connection.send(final_message(self._name(context)))

    async def _run_lane(self, context: str, phrases: Channel[Speak]) -> None:
        async for phrase in phrases:
            try:
                await self._speak(phrase)
            except EchoicError as error:
                message = error_message(str(error), "generation_failed", self._name(context))
                await self._connection.send(message)
        await self._connection.send(final_message(self._name(context)))

    async def _speak(self, phrase: Speak) -> None:
        speech = await self._voice.speak(phrase.text, phrase.speed)
        for piece in cut_speech(speech, self._request.audio):
            await self._connection.send(audio_message(piece, self._name(phrase.context)))
            # A socket that is ready takes a message without a pause: let other lanes and a cancel in between.
            await asyncio.sleep(0)

    def _name(self, context: str) -> str | None:
        return context if self._request.multi else None
