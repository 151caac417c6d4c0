"""The ElevenLabs stream-input protocol as its client sees it: the URL, the server's messages, word times."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from pydantic import AliasChoices, Base64Bytes, BaseModel, Field

from audio.format import ms_to_samples
from pipeline.frames import WordTime

SPEEDS = (0.7, 1.2)  # how slow and how fast the protocol lets a voice speak; 1 is its own speed
INACTIVITY_S = 180  # the longest that the hosted service allows between two messages of a context


class Alignment(BaseModel):
    """When each character begins and how long it lasts, in ms from the first sample of its message."""

    characters: list[str] = Field(validation_alias="chars")
    starts_ms: list[float] = Field(validation_alias="charStartTimesMs")
    durations_ms: list[float] = Field(validation_alias=AliasChoices("charDurationsMs", "charsDurationsMs"))


class ServerMessage(BaseModel):
    """One message of the server: audio, the end of a context, or an error (of a context if it names one)."""

    audio: Base64Bytes | None = None
    alignment: Alignment | None = None
    final: bool | None = Field(None, validation_alias=AliasChoices("isFinal", "is_final"))
    context: str | None = Field(None, validation_alias=AliasChoices("contextId", "context_id"))
    error: str | None = None
    message: str | None = None


def stream_url(base: str, voice: str, rate_hz: int) -> str:
    """The URL of the multi-context socket of a voice; a query in the base stays."""
    parts = urlsplit(base)
    root = parts.path.rstrip("/").removesuffix("/v1")
    settings = {
        "output_format": f"pcm_{rate_hz}",
        "auto_mode": "true",
        "sync_alignment": "true",
        "inactivity_timeout": str(INACTIVITY_S),
    }
    path = f"{root}/v1/text-to-speech/{quote(voice, safe='')}/multi-stream-input"
    query = urlencode(dict(parse_qsl(parts.query)) | settings)
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


class WordTimes:
    """Characters with their times in, words out once white space has ended them.

    Times become samples from the start of the reply.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._text = ""
        self._start = 0
        self._end = 0

    def push(self, alignment: Alignment, offset: int) -> tuple[WordTime, ...]:
        """The words that end in a message whose first sample is number ``offset`` of the reply."""
        words: list[WordTime] = []
        columns = (alignment.characters, alignment.starts_ms, alignment.durations_ms)
        for character, start_ms, duration_ms in zip(*columns, strict=False):
            if character.isspace():
                words += self.finish()
                continue
            start = offset + ms_to_samples(start_ms, self._rate_hz)
            self._start = self._start if self._text else start
            self._end = start + ms_to_samples(duration_ms, self._rate_hz)
            self._text += character
        return tuple(words)

    def finish(self) -> tuple[WordTime, ...]:
        """The word that has begun, if any."""
        text, self._text = self._text, ""
        return (WordTime(text, self._start, self._end),) if text else ()
