"""The server: one process, one port, every door. Embeddable: ``async with Server(config) as server: ...``."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.server import Server as SocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from pipeline.backends.loader import Models, load_models
from pipeline.config import Config
from pipeline.ports import RATE_HZ, EchoicError, InputError, Message, Prompt
from pipeline.session import Session, Stages
from pipeline.speak import SpeechLink
from pipeline.store import Store
from pipeline.timing import loop_clock
from server import speech
from server.door import RealtimeDoor
from server.voices.hibari import HibariVoice

log = logging.getLogger(__name__)

REALTIME_PATHS = frozenset({"/v1/realtime", "/realtime"})
LARGEST_MESSAGE = 16 * 1024 * 1024
TRY_LATER = 1013
GOING_AWAY = 1001


class Server:
    """Echoic on a port. Models are loaded at entry unless given, and closed at exit unless given."""

    def __init__(
        self,
        config: Config,
        *,
        store: Store | None = None,
        models: Models | None = None,
        voice: HibariVoice | None = None,
    ) -> None:
        self.config = config
        self._store = store
        self._given_models = models
        self._given_voice = voice
        self._models: Models | None = models
        self._voice: HibariVoice | None = voice
        self._socket: SocketServer | None = None
        self.sessions = 0  # conversations going on

    @property
    def models(self) -> Models:
        """The loaded weights."""
        if self._models is None:
            raise EchoicError("the server is not running: its models are loaded when it starts")
        return self._models

    @property
    def voice(self) -> HibariVoice:
        """The loaded voice."""
        if self._voice is None:
            raise EchoicError("the server is not running: its voice is loaded when it starts")
        return self._voice

    @property
    def port(self) -> int:
        """The port it listens on, chosen by the system where the configuration says 0."""
        if self._socket is None:
            raise EchoicError("the server is not running: it has no port yet")
        port: int = next(iter(self._socket.sockets)).getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Where clients connect: the base that SDKs want."""
        return f"ws://{self.config.server.host}:{self.port}/v1"

    @property
    def realtime_url(self) -> str:
        """The Realtime endpoint."""
        return f"{self.url}/realtime"

    @property
    def speech_url(self) -> str:
        """The speech socket that replies are spoken through: the embedded one unless another is configured."""
        return self.config.speech.url or f"ws://{self.config.server.host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Take the port, load, and listen. Raises InputError for a port that is taken, StoreError for a model."""
        host, port = self.config.server.host, self.config.server.port
        try:
            taken = socket.create_server((host, port))
        except OSError as error:
            raise InputError(_why_not_listening(host, port, error)) from error
        try:
            await asyncio.to_thread(self._load)
            await self._warm_up()
            self._socket = await serve(
                self._serve,
                sock=taken,
                process_request=_refuse_unknown_paths,
                subprotocols=[Subprotocol("realtime")],
                select_subprotocol=_select_subprotocol,
                compression=None,
                max_size=LARGEST_MESSAGE,
            )
        except BaseException:
            taken.close()
            await asyncio.to_thread(self._unload)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection with 1001, wait for the sessions to end, free the models."""
        assert self._socket is not None
        self._socket.close(close_connections=True)
        deadline_s = self.config.server.close_deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                await self._socket.wait_closed()
        except TimeoutError:
            log.error("%d conversations did not end within %s s", self.sessions, deadline_s)
        await asyncio.to_thread(self._unload)

    def _load(self) -> None:
        self._models = self._given_models or load_models(self.config, self._store or Store.default(os.environ))
        # With another speech server its voices are not ours; the socket here speaks with the built-in one.
        name = "heart" if self.config.speech.url else self.config.speech.voice
        self._voice = self._given_voice or HibariVoice(
            name, self._models.cores, private=self.config.memory.mode == "echoic"
        )

    async def _warm_up(self) -> None:
        """Run every model once: the first user does not pay for what is made on first use."""
        silence = np.zeros(RATE_HZ, np.float32)
        conversation = self.models.language_model.open()
        prompt = Prompt((Message("system", self.config.llm.instructions), Message("user", "")), open=True)
        async with asyncio.TaskGroup() as work:
            work.create_task(self.voice.load())
            work.create_task(self.models.turn_end.judge(silence))
            work.create_task(self.models.recogniser.recognise(silence))
            work.create_task(conversation.prefill(prompt))
        await conversation.close()

    def _unload(self) -> None:
        if self._models is not None and self._given_models is None:
            self._models.close()
        if self._voice is not None and self._given_voice is None:
            self._voice.close()
        self._models = self._voice = None

    async def _serve(self, connection: ServerConnection) -> None:
        path = connection.request.path if connection.request else ""
        if speech.matches(path):
            await speech.serve_speech(connection, self.voice)
        else:
            await self._serve_realtime(connection)

    async def _serve_realtime(self, connection: ServerConnection) -> None:
        if self.sessions >= self.config.server.max_sessions:
            await connection.close(TRY_LATER, "all sessions are taken, try again later")
            return
        self.sessions += 1
        try:
            await RealtimeDoor(
                connection, self._new_session(), self.config.llm.model, self.config.speech.voice
            ).serve()
        finally:
            self.sessions -= 1

    def _new_session(self) -> Session:
        models, speech_config = self.models, self.config.speech
        stages = Stages(
            activity=models.vad.open(),
            turn_end=models.turn_end,
            recogniser=models.recogniser,
            language_model=models.language_model,
            speech=SpeechLink(self.speech_url, speech_config.voice, speech_config.rate_hz),
        )
        return Session(stages, self.config, loop_clock)


def _refuse_unknown_paths(connection: ServerConnection, request: Request) -> Response | None:
    path = urlsplit(request.path).path
    if path in REALTIME_PATHS or speech.matches(request.path):
        return None
    return connection.respond(404, f"no such door: {path}; the Realtime endpoint is /v1/realtime\n")


def _select_subprotocol(connection: ServerConnection, offered: object) -> Subprotocol | None:
    return Subprotocol("realtime") if isinstance(offered, list | tuple) and "realtime" in offered else None


def _why_not_listening(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another with --port, or 0 for any free one"
    return f"cannot listen on {host}:{port}: {error.strerror or error}"
