"""The server's messages of the ElevenLabs stream-input protocol: speech in small pieces with their alignment."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np

from audio.format import AudioFormat, Samples, ms_to_samples
from audio.resample import StreamResampler
from pipeline.ports import Speech

# The first piece is short, because it is waited for; the later ones are long enough for the wire to be cheap.
PIECES_MS = (40, 60, 80, 100)
_LEAST_MS = 20  # no message is worth less
_STEP_MS = 40  # how much sound is resampled at a time


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of speech: its sound, its characters, and when they begin and how long they last.

    Times are ms from the first sample of the piece; the characters last exactly as long as the sound.
    """

    sound: bytes
    characters: str
    starts_ms: tuple[int, ...]
    durations_ms: tuple[int, ...]


def cut_speech(speech: Speech, audio: AudioFormat) -> Iterator[Piece]:
    """Speech in pieces of 40 to about 100 ms; none if it is silent.

    Clients add up the characters' times to know where a message begins, so a piece ends where a character ends,
    and is longer where a character is. Resampling is done piece by piece too, never all at once.
    """
    chunks = _resample(speech, audio.rate_hz)
    ready: Samples = np.zeros(0, np.float32)
    sent = 0
    for span in _spans(speech):
        is_last = span.stop == len(speech.text)
        wanted = ms_to_samples(_end_ms(speech, span.stop - 1), audio.rate_hz) - sent
        while (is_last or len(ready) < wanted) and (chunk := next(chunks, None)) is not None:
            ready = np.concatenate((ready, chunk))
        size = len(ready) if is_last else wanted
        yield _piece(speech, span, audio.encode(ready[:size]))
        ready = ready[size:]
        sent += size


def _spans(speech: Speech) -> Iterator[slice]:
    """Which characters go into one piece."""
    if not len(speech.samples):
        return
    total_ms = _end_ms(speech, -1)
    targets = chain(PIECES_MS, repeat(PIECES_MS[-1]))
    first, target = 0, next(targets)
    for index in range(len(speech.text)):
        end_ms = _end_ms(speech, index)
        if end_ms - speech.starts_ms[first] >= target and total_ms - end_ms >= _LEAST_MS:
            yield slice(first, index + 1)
            first, target = index + 1, next(targets)
    yield slice(first, len(speech.text))


def _end_ms(speech: Speech, index: int) -> int:
    return speech.starts_ms[index] + speech.durations_ms[index]


def _piece(speech: Speech, span: slice, sound: bytes) -> Piece:
    starts = speech.starts_ms[span]
    relative = tuple(start - starts[0] for start in starts)
    return Piece(sound, speech.text[span], relative, speech.durations_ms[span])


def _resample(speech: Speech, rate_hz: int) -> Iterator[Samples]:
    stream = StreamResampler(speech.rate_hz, rate_hz)
    step = ms_to_samples(_STEP_MS, speech.rate_hz)
    for start in range(0, len(speech.samples), step):
        yield stream.push(speech.samples[start : start + step])
    yield stream.finish()


def audio_message(piece: Piece, context: str | None) -> str:
    """A piece of audio; ``context`` is None on a single-context socket.

    The voice reports no text of its own, so both alignments are of the text as it was sent.
    """
    times = {
        "chars": list(piece.characters),
        "charStartTimesMs": piece.starts_ms,
        "charDurationsMs": piece.durations_ms,
    }
    sound = base64.b64encode(piece.sound).decode()
    return _dump({"audio": sound, "isFinal": None, "alignment": times, "normalizedAlignment": times}, context)


def final_message(context: str | None) -> str:
    """The last message of a context, or of a single-context socket."""
    return _dump({"audio": None, "isFinal": True, "alignment": None, "normalizedAlignment": None}, context)


def error_message(message: str, error: str, context: str | None = None) -> str:
    """An error of one context, or of the whole connection, which is then closed with 1008."""
    return _dump({"message": message, "error": error, "code": 1008}, context)


def _dump(message: dict[str, Any], context: str | None) -> str:
    # Some clients read one key, some the other.
    keys = {} if context is None else {"contextId": context, "context_id": context}
    return json.dumps(message | keys)
