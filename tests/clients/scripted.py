"""A Realtime server without models: it hears loudness, and answers every turn with the same words and a tone."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from websockets.asyncio.server import ServerConnection, serve

from audio.format import AudioFormat
from clients.realtime import ServerEvent
from pipeline.timing import loop_clock

RATE_HZ = 24_000
WIRE = AudioFormat("pcm16", RATE_HZ)
SILENCE_MS = 100


def tone(seconds: float, rate_hz: int = RATE_HZ, level: float = 0.3) -> np.ndarray:
    """Sound that can be heard from its first samples on."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    return (level * np.cos(2 * np.pi * 220 * time)).astype(np.float32)


@dataclass
class Script:
    """What the server says, and how it misbehaves."""

    transcript: str = "what is the capital of france"
    reply: str = "Paris."
    lead_in_s: float = 0.05  # silence in front of the reply's sound
    speaks: bool = True
    breaks_after_ms: float | None = None
    greeting: dict[str, Any] | None = None
    sessions: list[list[dict[str, Any]]] = field(default_factory=list)  # the client's events


class ScriptedSession:
    """One connection: loud sound opens a turn, 100 ms of silence closes it."""

    def __init__(self, socket: ServerConnection, script: Script, timing: bool) -> None:
        self._socket = socket
        self._script = script
        self._timing = timing
        self._received_ms = 0.0
        self._last_loud_ms: float | None = None
        self._turn = 0

    async def run(self, heard: list[dict[str, Any]]) -> None:
        await self.send(self._script.greeting or {"type": "session.created", "session": {"type": "realtime"}})
        async for message in self._socket:
            event = json.loads(message)
            heard.append(event)
            match event["type"]:
                case "session.update":
                    await self.send({"type": "session.updated", "session": event["session"]})
                case "input_audio_buffer.append":
                    await self._hear(base64.b64decode(event["audio"]))
                case "response.create":
                    await self._reply()

    async def send(self, event: dict[str, Any]) -> None:
        await self._socket.send(json.dumps({"event_id": "event_1", **event}))

    async def _hear(self, pcm: bytes) -> None:
        samples = WIRE.decode(pcm)
        self._received_ms += len(samples) * 1000 / RATE_HZ
        breaks_after_ms = self._script.breaks_after_ms
        if breaks_after_ms is not None and self._received_ms > breaks_after_ms:
            await self._socket.close(1011, "a stage fell over")
        elif np.abs(samples).max(initial=0) > 0.01:
            if self._last_loud_ms is None:
                await self.send(
                    {"type": "input_audio_buffer.speech_started", "item_id": "user", "audio_start_ms": 0}
                )
            self._last_loud_ms = self._received_ms
        elif self._last_loud_ms is not None and self._received_ms - self._last_loud_ms >= SILENCE_MS:
            await self._end_turn(self._last_loud_ms)
            self._last_loud_ms = None

    async def _end_turn(self, speech_end_ms: float) -> None:
        self._turn += 1
        user = f"user_{self._turn}"
        await self.send({"type": "input_audio_buffer.speech_stopped", "item_id": user, "audio_end_ms": 0})
        first, rest = self._script.transcript[:5], self._script.transcript
        kind = "conversation.item.input_audio_transcription"
        await self.send({"type": f"{kind}.delta", "item_id": user, "content_index": 0, "delta": first})
        await self.send({"type": f"{kind}.completed", "item_id": user, "content_index": 0, "transcript": rest})
        if not self._script.speaks:
            return
        await self._reply()
        if self._timing:
            await self.send({"type": "echoic.turn", "record": self._record(speech_end_ms)})

    async def _reply(self) -> None:
        response = {"id": f"resp_{self._turn}", "status": "in_progress"}
        about = {"response_id": response["id"], "item_id": "reply", "output_index": 0, "content_index": 0}
        sound = np.concatenate([np.zeros(round(self._script.lead_in_s * RATE_HZ), np.float32), tone(0.1)])
        await self.send({"type": "response.created", "response": response})
        await self.send({"type": "response.output_audio_transcript.delta", **about, "delta": self._script.reply})
        for piece in np.array_split(sound, 3):
            delta = base64.b64encode(WIRE.encode(piece)).decode()
            await self.send({"type": "response.output_audio.delta", **about, "delta": delta})
        await self.send({"type": "response.done", "response": {**response, "status": "completed"}})

    def _record(self, speech_end_ms: float) -> dict[str, Any]:
        marks = {"pause_seen": 1.0, "asr_final": 2.0, "first_token": 3.0, "first_audio_sent": 4.0}
        return {
            "turn": self._turn,
            "status": "completed",
            "speech_end_ms": speech_end_ms,
            "marks_ms": marks,
            "prefilled_tokens": 7,
            "drafted_tokens": 9,
            "wasted_tokens": 2,
            "transcript": self._script.transcript,
            "reply": self._script.reply,
        }


@asynccontextmanager
async def scripted_server(script: Script) -> AsyncIterator[str]:
    """The server on a free port; yields its base URL."""

    async def converse(socket: ServerConnection) -> None:
        assert socket.request is not None
        asked = parse_qs(urlsplit(socket.request.path).query)
        heard: list[dict[str, Any]] = []
        script.sessions.append(heard)
        await ScriptedSession(socket, script, "timing" in asked.get("echoic", [])).run(heard)

    async with serve(converse, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1"


@contextmanager
def server_in_thread(script: Script) -> Iterator[str]:
    """The same server on a loop of its own, for commands that run their own."""
    ready: dict[str, Any] = {}
    started = threading.Event()

    async def host() -> None:
        async with scripted_server(script) as url:
            ready.update(url=url, loop=asyncio.get_running_loop(), stop=asyncio.Event())
            started.set()
            await ready["stop"].wait()

    thread = threading.Thread(target=asyncio.run, args=(host(),))
    thread.start()
    started.wait()
    try:
        yield ready["url"]
    finally:
        ready["loop"].call_soon_threadsafe(ready["stop"].set)
        thread.join()


class Timeline:
    """Takes sound, and tells events at given seconds of virtual time; then silence, or the end."""

    def __init__(self, *events: tuple[float, dict[str, Any]], ends: bool = False) -> None:
        self._events = sorted(events, key=lambda event: event[0])
        self._ends = ends

    async def append(self, pcm: bytes) -> None: ...

    async def __aiter__(self) -> AsyncIterator[ServerEvent]:
        for at, body in self._events:
            await asyncio.sleep(at - loop_clock())
            yield ServerEvent(body["type"], body, loop_clock())
        if not self._ends:
            await asyncio.Event().wait()
