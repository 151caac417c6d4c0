"""The server: one process, one port, every door. Embeddable: ``async with Server(config) as server: ...``."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import ssl
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server as SocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from pipeline.backends.loader import Loading, Models, begin_loading
from pipeline.channel import Backlog
from pipeline.config import Config
from pipeline.interpreter import starting
from pipeline.ports import EchoicError
from pipeline.session import Session, Stages
from pipeline.socket_log import socket_log
from pipeline.speak import SpeechLink
from pipeline.store import Store
from pipeline.timing import loop_clock
from server import speech
from server.client_secrets import ClientSecrets
from server.door import GOING_AWAY, RealtimeDoor
from server.gate import FULL, GONE, REALTIME_PATHS, TRY_LATER, Gate, Refusal
from server.keys import Keys, Visitor
from server.listening import take_port
from server.page import Page
from server.plain import DoorConnection
from server.status import StatusPages
from server.voices.hibari import HibariVoice, voice_of
from server.warm_up import warm_up
from server.watch import Watch

log = logging.getLogger(__name__)

MOST_UNREAD = 4  # messages that were received and not read: each may be as large as they come


class Server:
    """Echoic on a port. Models are loaded at entry unless given, and closed at exit unless given."""

    def __init__(
        self,
        config: Config,
        *,
        keys: Keys | None = None,
        store: Store | None = None,
        models: Models | None = None,
        voice: HibariVoice | None = None,
        loading: Loading | None = None,
    ) -> None:
        """``loading``: models that were begun to be loaded for this server."""
        self.config = config
        self._keys = keys or Keys()
        self._gate = Gate(self._keys, config.server.origins, config.limits.sessions_per_key)
        self._page = Page()
        self.stopping = False
        self.watch = Watch(self)
        self._status = StatusPages(self.watch, self._gate)
        self._store = store
        self._loading = loading
        self._given_models = models
        self._given_voice = voice
        self._models: Models | None = models
        self._voice: HibariVoice | None = voice
        self._socket: SocketServer | None = None
        self._inner: SocketServer | None = None
        self._inner_key = secrets.token_urlsafe()
        self._doors: dict[RealtimeDoor, Visitor] = {}
        self._speaking: set[ServerConnection] = set()

    @property
    def sessions(self) -> int:
        """How many conversations are going on."""
        return len(self._doors)

    @property
    def speaking(self) -> int:
        """How many clients the speech socket has."""
        return len(self._speaking)

    @property
    def full(self) -> bool:
        """Whether one more conversation would be one too many: by their number, or by what they take of the cores.

        One more is expected to take as much as each of those there are, on average, whether they speak or not.
        """
        limits = self.config.server
        expected = self.models.cores.load.each(self.sessions) * (self.sessions + 1)
        return self.sessions >= limits.max_sessions or (self.sessions > 0 and expected > limits.full_share)

    def backlogs(self) -> tuple[Backlog, ...]:
        """What waits in the queues of sound of every conversation."""
        return tuple(backlog for door in self._doors for backlog in door.backlogs())

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
        return _port_of(self._socket)

    @property
    def url(self) -> str:
        """Where clients connect: the base that SDKs want."""
        return f"{'wss' if self.config.server.cert else 'ws'}://{self.config.server.host}:{self.port}/v1"

    @property
    def realtime_url(self) -> str:
        """The Realtime endpoint."""
        return f"{self.url}/realtime"

    async def __aenter__(self) -> Self:
        """Take the port, load, and listen. Raises InputError for what cannot be served, StoreError for a model."""
        taken, secured = take_port(self.config.server, self._keys.required)
        try:
            with starting():
                await self._load()
            # The replies' own way to the voice: never through the door, its keys, its limits or its TLS.
            self._inner = await serve(self._serve_inner, "127.0.0.1", 0, compression=None, logger=socket_log())
            self._socket = await self._open_door(taken, secured)
        except BaseException:
            taken.close()
            await self._close_inner()
            await asyncio.to_thread(self._unload)
            raise
        return self

    async def _open_door(self, taken: socket.socket, secured: ssl.SSLContext | None) -> SocketServer:
        limits = self.config.limits
        connection = type("Connection", (DoorConnection,), {"answer": ClientSecrets(self._keys, self.config)})
        return await serve(
            self._serve,
            sock=taken,
            ssl=secured,
            create_connection=connection,
            process_request=self._admit,
            subprotocols=[Subprotocol("realtime")],
            select_subprotocol=_select_subprotocol,
            compression=None,
            max_size=limits.message_bytes,
            max_queue=MOST_UNREAD,
            open_timeout=limits.open_s,
            close_timeout=limits.close_s,
            ping_interval=limits.ping_s,
            ping_timeout=limits.ping_s,
            logger=socket_log(),
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take nobody new, let running turns finish, close every connection with 1001, free the models."""
        assert self._socket is not None
        self.stopping = True
        await asyncio.gather(*(door.finish(self.config.server.finish_s) for door in self._doors))
        self._socket.close(close_connections=False)
        deadline_s = self.config.server.close_deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                await asyncio.gather(*(one.close(GOING_AWAY) for one in self._speaking))
                await self._socket.wait_closed()
        except TimeoutError:
            log.error("%d conversations did not end within %s s", self.sessions, deadline_s)
        await self._close_inner()
        await asyncio.to_thread(self._unload)

    async def _close_inner(self) -> None:
        if self._inner is not None:
            self._inner.close()
            await self._inner.wait_closed()

    async def _load(self) -> None:
        """Models and voice, side by side, each run once: the first user does not pay for what is made then."""
        store = self._store or Store.default(os.environ)
        if self._given_models is None and self._loading is None:
            self._loading = await asyncio.to_thread(begin_loading, self.config, store)
        outcomes = await asyncio.gather(self._load_models(), self._load_voice(), return_exceptions=True)
        for failure in filter(None, outcomes):  # all that was loaded beside it is there now, to be closed
            raise failure

    async def _load_models(self) -> None:
        if self._loading is not None:
            self._models = await asyncio.wrap_future(self._loading.models)
        await warm_up(self.models, self.config.llm.instructions)

    async def _load_voice(self) -> None:
        if self._given_voice is None:
            cores = self._loading.cores if self._loading else self.models.cores
            self._voice = await asyncio.to_thread(voice_of, self.config, cores)
        await self.voice.load()

    def _unload(self) -> None:
        if self._models is not None and self._given_models is None:
            self._models.close()
        if self._voice is not None and self._given_voice is None:
            self._voice.close()
        self._models = self._voice = None

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer what is no WebSocket, and refuse what may not become one."""
        path = urlsplit(request.path).path
        if page := self._page.response(path) or self._status.response(path, request):
            return page
        if self.stopping:
            return connection.respond(503, "the server is stopping\n")
        if path not in REALTIME_PATHS and not speech.matches(request.path):
            return connection.respond(404, f"no such door: {path}; the Realtime endpoint is /v1/realtime\n")
        if not self._gate.admits_origin(request.headers):
            origin = request.headers["Origin"]
            return connection.respond(403, f"pages of {origin} may not connect: add it to server.origins\n")
        if path not in REALTIME_PATHS and self._gate.speech_visitor(request) is None:
            return connection.respond(401, "invalid_api_key: send one of the server's keys as xi-api-key\n")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, DoorConnection)
        assert connection.request is not None
        if speech.matches(connection.request.path):
            await self._serve_speech(connection)
            return
        try:
            await self._serve_realtime(connection, connection.request)
        except Refusal as refusal:
            self.watch.metrics.refused(refusal.code)
            await _refuse(connection, refusal)

    async def _serve_speech(self, connection: ServerConnection) -> None:
        self.watch.self_test.interrupt()
        self._speaking.add(connection)
        try:
            await speech.serve_speech(connection, self.voice)
        finally:
            self._speaking.discard(connection)

    async def _serve_realtime(self, connection: DoorConnection, request: Request) -> None:
        query = parse_qs(urlsplit(request.path).query)
        if token := query.get("token", [""])[0]:
            await self._held(token, request).take_over(connection, query.get("last", [""])[0])
            return
        visitor = self._gate.realtime_visitor(request, self._doors.values())
        if self.full:
            raise Refusal(TRY_LATER, "server_full", FULL)
        self.watch.self_test.interrupt()
        session = Session(self.new_stages(), self.config, loop_clock)
        door = RealtimeDoor(connection, session, self.config, visitor.session, self.watch.turn_over)
        self._doors[door] = visitor
        try:
            await door.serve()
        finally:
            self.models.cores.load.left(self.sessions)
            del self._doors[door]
            self.watch.metrics.session_over(door.session_id, door.close_code, door.backlogs())

    def _held(self, token: str, request: Request) -> RealtimeDoor:
        """The conversation that a client comes back to. Raises Refusal where there is none of theirs."""
        owner = self._gate.realtime_visitor(request, ()).owner
        for door, visitor in self._doors.items():
            if secrets.compare_digest(door.token.encode(), token.encode()) and visitor.owner == owner:
                return door
        raise Refusal(GONE, "resume_failed", "That session is over: it waits for so long only. Begin a new one.")

    async def _serve_inner(self, connection: ServerConnection) -> None:
        given = connection.request.headers.get("xi-api-key", "") if connection.request else ""
        if secrets.compare_digest(given.encode(), self._inner_key.encode()):
            await speech.serve_speech(connection, self.voice)

    def new_stages(self) -> Stages:
        """What one session works with: its own ear and way to speech, and its share of the models."""
        models, settings = self.models, self.config.speech
        url, key = (
            settings.url or f"ws://127.0.0.1:{_port_of(self._inner)}",
            None if settings.url else self._inner_key,
        )
        return Stages(
            activity=models.vad.open(),
            turn_end=models.turn_end,
            recogniser=models.recogniser,
            language_model=models.language_model,
            speech=SpeechLink(url, settings.voice, settings.rate_hz, key),
            new_activity=models.vad.open,
        )


async def _refuse(connection: ServerConnection, refusal: Refusal) -> None:
    try:
        await connection.send(refusal.event())
    except ConnectionClosed:
        return
    await connection.close(refusal.close_code, refusal.reason)


def _select_subprotocol(connection: ServerConnection, offered: object) -> Subprotocol | None:
    return Subprotocol("realtime") if isinstance(offered, list | tuple) and "realtime" in offered else None


def _port_of(server: SocketServer | None) -> int:
    if server is None:
        raise EchoicError("the server is not running: it has no port yet")
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port
