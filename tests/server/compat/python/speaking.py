"""What every speech client here does: has an answer spoken, begins a story and breaks it off, and says goodbye."""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

RATE_HZ = 24_000
PATIENCE_S = 90.0

ANSWER = "The capital of France is Paris. It lies on the river Seine."
STORY = "Once upon a time a fisherman lived by the sea. " * 12
FAREWELL = "Good night, and sleep well."


def tokens(text: str) -> Iterator[str]:
    """The text as a model writes it."""
    for word in text.split():
        yield f"{word} "


@dataclass
class Spoken:
    """What the client's user hears: 16-bit mono at 24 kHz, and words with their seconds where told."""

    pcm: bytes = b""
    words: list[tuple[str, float]] = field(default_factory=list)


@dataclass
class Report:
    """What was heard of each text, and what went wrong."""

    answer: Spoken = field(default_factory=Spoken)
    story: Spoken = field(default_factory=Spoken)
    farewell: Spoken = field(default_factory=Spoken)
    errors: list[str] = field(default_factory=list)

    def save(self, folder: Path) -> str:
        """The sounds as recordings in the folder, the rest as JSON."""
        for name in ("answer", "story", "farewell"):
            with wave.open(str(folder / f"{name}.wav"), "wb") as file:
                file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
                file.writeframes(getattr(self, name).pcm)
        words = {name: getattr(self, name).words for name in ("answer", "story", "farewell")}
        return json.dumps({"words": words, "errors": self.errors})


def main(converse: Callable[[str, str], Awaitable[Report]]) -> None:
    """Run it: the server's host and port, a key, and a folder for the recordings are given on the command line."""
    host, key, folder = sys.argv[1:4]

    async def run() -> Report:
        async with asyncio.timeout(PATIENCE_S):
            return await converse(host, key)

    sys.stdout.write(asyncio.run(run()).save(Path(folder)) + "\n")
