"""Push to talk: the client says when a turn is over, so nothing is decided by its sound."""

from __future__ import annotations

from collections.abc import Callable

from audio.format import AudioChunk, Samples
from pipeline.hearing import Hearing
from pipeline.ports import RATE_HZ
from pipeline.transcribe import Transcriber


class HeldSound:
    """The sound since the last commit: transcribed while it comes, a turn only when the client says so."""

    def __init__(self, hearing: Hearing, transcriber: Transcriber, begin_turn: Callable[[], int]) -> None:
        self.turn = 0  # whose sound is held; 0 while there is none
        self._hearing = hearing
        self._transcriber = transcriber
        self._begin_turn = begin_turn
        self._start = 0

    def push(self, frame: Samples) -> None:
        """The frame that was just listened to."""
        if not self.turn:
            self.turn, self._start = self._begin_turn(), self._hearing.position - len(frame)
            self._transcriber.begin(AudioChunk(frame, RATE_HZ, self._start))
        else:
            self._transcriber.push(frame, self._hearing.listener.voiced)

    def clear(self) -> None:
        """Drop it; the next sound is a new turn's."""
        self.turn = 0
        self._transcriber.forget()

    async def finish(self) -> tuple[str, float]:
        """The words in it and its length in seconds; it is still held then. Raises StageError."""
        # Where nobody spoke a recogniser would hear words in the noise.
        spoken = bool(self.turn) and self._hearing.listener.last_speech > self._start
        text = (await self._transcriber.finish(self._hearing.position)).text if spoken else ""
        return text, self._transcriber.heard_s
