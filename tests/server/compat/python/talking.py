"""What every client here does: speaks recordings into an open microphone, and reports what came back as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

PIECE_BYTES = 960  # 20 ms at 24 kHz
PATIENCE_S = 90.0


@dataclass
class Report:
    """What the client's own user would know of the conversation."""

    transcripts: list[str] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    audio_bytes: int = 0
    interruptions: int = 0
    tool_calls: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Microphone:
    """Sends sound in real time: what was said into it, silence otherwise."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._sound = b""

    def say(self, recording: Path) -> None:
        """Speak a recording: 16-bit mono at 24 kHz."""
        with wave.open(str(recording)) as file:
            self._sound += file.readframes(file.getnframes())

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            piece, self._sound = self._sound[:PIECE_BYTES], self._sound[PIECE_BYTES:]
            await self._send(piece.ljust(PIECE_BYTES, b"\0"))
            due += PIECE_BYTES / 48_000
            await asyncio.sleep(due - loop.time())


def main(converse: Callable[[str, Path, Path], Awaitable[Report]]) -> None:
    """Run a conversation: the server's base URL, a question and an interruption are given on the command line."""

    async def run() -> Report:
        async with asyncio.timeout(PATIENCE_S):
            return await converse(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))

    sys.stdout.write(json.dumps(asdict(asyncio.run(run()))) + "\n")
