"""The Realtime endpoint's async shell: one socket, one protocol state, one session."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from audio.resample import StreamResampler
from pipeline.ports import RATE_HZ
from pipeline.session import Session
from server.realtime import CancelReply, HearSound, Instruct, RealtimeProtocol, TakeText, WantReply, Wish

log = logging.getLogger(__name__)

NORMAL, INTERNAL_ERROR = 1000, 1011


class RealtimeDoor:
    """Carries one client's messages to the protocol and its wishes to the session, and events back."""

    def __init__(self, connection: ServerConnection, session: Session, model: str, voice: str) -> None:
        query = parse_qs(urlsplit(connection.request.path).query) if connection.request else {}
        self._connection = connection
        self._session = session
        self._protocol = RealtimeProtocol(
            model=query.get("model", [model])[0],
            instructions=session.history.instructions,
            voice=voice,
            extras="timing" in query.get("echoic", []),
            private=session.private,
        )
        self._resampler = StreamResampler(24_000, RATE_HZ)
        self._sending = asyncio.Lock()

    async def serve(self) -> None:
        """Converse until either side closes. A bug in the session is told to the client and closes with 1011."""
        try:
            async with asyncio.TaskGroup() as work:
                running = work.create_task(self._session.run())
                speaking = work.create_task(self._run_events())
                try:
                    await self._run_messages()
                finally:
                    await self._session.close()
                await running
                speaking.cancel()
        except* ConnectionClosed:
            pass  # the client left: nobody is there to be told
        except* Exception as bugs:
            log.error("session ended by an unexpected failure", exc_info=bugs)
            self._protocol.fail("Echoic failed unexpectedly; this session is over, please reconnect.")
            await self._send_quietly()
            await self._connection.close(INTERNAL_ERROR, "internal error")

    async def _run_messages(self) -> None:
        await self._flush()
        async for message in self._connection:
            for wish in self._protocol.receive(message):
                await self._grant(wish)
            await self._flush()

    async def _run_events(self) -> None:
        async for event in self._session.events:
            self._protocol.on_event(event)
            del event  # what was said must not be held here until the next event
            await self._flush()

    async def _grant(self, wish: Wish) -> None:
        match wish:
            case HearSound(samples, rate_hz):
                if rate_hz != self._resampler.from_hz:
                    self._resampler = StreamResampler(rate_hz, RATE_HZ)
                await self._session.hear(self._resampler.push(samples))
            case TakeText(text):
                self._session.add_user_text(text)
            case WantReply(spoken):
                await self._session.respond(spoken=spoken)
            case CancelReply():
                await self._session.cancel()
            case Instruct(instructions):
                self._session.history.instructions = instructions

    async def _flush(self) -> None:
        """Send what the protocol has to say, in its order, whoever made it say so."""
        async with self._sending:
            outgoing, self._protocol.outgoing = self._protocol.outgoing, []
            for text in outgoing:
                await self._connection.send(text)

    async def _send_quietly(self) -> None:
        try:
            await self._flush()
        except ConnectionClosed:
            log.info("the client left before it could be told of the failure")
