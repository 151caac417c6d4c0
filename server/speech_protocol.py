"""The ElevenLabs stream-input protocol, server side and without I/O: messages in, actions out.

``/v1/text-to-speech/{voice_id}/stream-input`` speaks one text, ``.../multi-stream-input`` several contexts over
one socket. Text is buffered and cut into phrases; ``chunk_length_schedule`` is the longest a phrase may become
rather than how much is waited for. Beyond the protocol as published: ``"immediate": true`` beside
``close_context`` drops a context instead of finishing it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from audio.format import AudioFormat
from pipeline.phrases import PhraseCutter
from pipeline.ports import InputError
from pipeline.speech_wire import SPEEDS

MAX_CONTEXTS = 5  # the hosted service's limit
MAX_TEXT = 20_000  # characters a message; cutting them must not hold up the event loop
MAX_INACTIVITY_S = 180.0
MIN_TRIGGER = 50  # ``try_trigger_generation`` speaks at once what is at least as long: the least chunk length
DEFAULT_CONTEXT = "default"

_PATH = re.compile(r"/v1/text-to-speech/([^/]+)/(multi-)?stream-input")
_PCM_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_FORMATS = {
    **{f"pcm_{rate_hz}": AudioFormat("pcm16", rate_hz) for rate_hz in _PCM_RATES_HZ},
    "ulaw_8000": AudioFormat("pcmu", 8_000),
    "alaw_8000": AudioFormat("pcma", 8_000),
}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class ProtocolError(InputError):
    """The client broke the protocol; ``error`` is the protocol's short name for how."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """What a client asks for by the path and query of its handshake."""

    voice_id: str
    multi: bool
    audio: AudioFormat
    auto_mode: bool
    inactivity_timeout_s: float

    @classmethod
    def parse(cls, target: str) -> SpeechRequest:
        """Read a request target. Raises ProtocolError for a setting that cannot be met."""
        url = urlsplit(target)
        path = _PATH.fullmatch(url.path)
        if path is None:
            raise ProtocolError("not_found", f"{url.path} is no text-to-speech socket")
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        return cls(
            voice_id=unquote(path[1]),
            multi=path[2] is not None,
            audio=_parse_format(query.get("output_format", "pcm_24000")),
            auto_mode=_parse_flag("auto_mode", query.get("auto_mode", "false")),
            inactivity_timeout_s=_parse_timeout(query.get("inactivity_timeout", "20")),
        )


def matches(target: str) -> bool:
    """Whether a request target is one of the two text-to-speech sockets."""
    return _PATH.fullmatch(urlsplit(target).path) is not None


def _parse_format(name: str) -> AudioFormat:
    if name not in _FORMATS:
        raise ProtocolError(
            "unsupported_output_format",
            f"output_format {name!r} is not served here; use one of {', '.join(_FORMATS)}",
        )
    return _FORMATS[name]


def _parse_flag(name: str, value: str) -> bool:
    if value.lower() not in _FLAGS:
        raise ProtocolError("invalid_query", f"{name} is {value!r}; use true or false")
    return _FLAGS[value.lower()]


def _parse_timeout(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_INACTIVITY_S:
        raise ProtocolError("invalid_query", f"inactivity_timeout is {value!r}; use 1 to {MAX_INACTIVITY_S:.0f} s")
    return seconds


class _VoiceSettings(BaseModel):
    speed: float | None = Field(None, ge=SPEEDS[0], le=SPEEDS[1])


class _GenerationConfig(BaseModel):
    chunk_length_schedule: list[Annotated[int, Field(ge=50, le=500)]] | None = Field(None, max_length=50)


class _Message(BaseModel):
    """A client's message; what it holds beyond these fields has no bearing on a voice of our own."""

    text: str | None = Field(None, max_length=MAX_TEXT)
    context_id: str | None = Field(None, max_length=200, validation_alias=AliasChoices("context_id", "contextId"))
    flush: bool | None = None
    try_trigger_generation: bool | None = None
    close_context: bool | None = None
    immediate: bool | None = None
    close_socket: bool | None = None
    voice_settings: _VoiceSettings | None = None
    generation_config: _GenerationConfig | None = None


@dataclass(frozen=True, slots=True)
class Speak:
    """Speak a phrase in a context."""

    context: str
    text: str
    speed: float


@dataclass(frozen=True, slots=True)
class Finish:
    """No more text comes for a context: send its final message after its audio."""

    context: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget what a context has still to say, and send its final message now; nothing if that was sent before."""

    context: str


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the socket once every context is finished; with an error, tell it first and close with 1008."""

    error: ProtocolError | None = None


Action = Speak | Finish | Drop | HangUp


@dataclass(slots=True)
class _Context:
    heard_at: float
    cutter: PhraseCutter = field(default_factory=PhraseCutter)
    speed: float = 1.0
    spoke: bool = False


class SpeechProtocol:
    """The state of one connection. Times are seconds on the caller's clock."""

    def __init__(self, request: SpeechRequest, now: float) -> None:
        self._request = request
        self._contexts: dict[str, _Context] = {}
        if not request.multi:
            self._contexts[DEFAULT_CONTEXT] = _Context(now)

    def receive(self, raw: str | bytes, now: float) -> list[Action]:
        """What a message asks for. Raises ProtocolError when it cannot be understood or is too much."""
        message = _parse_message(raw)
        if message.close_socket:
            return self._finish_all()
        if not self._request.multi:
            return self._receive_single(message, now)
        name = message.context_id or DEFAULT_CONTEXT
        if message.close_context and message.immediate:
            return [self._drop(name)]
        if name not in self._contexts:
            if not message.text:
                return []  # a keep-alive, a flush of nothing or a second close opens no context
            self._open(name, now)
        actions = self._take_text(name, message, now)
        return [*actions, *self._finish(name)] if message.close_context else actions

    def expire(self, now: float) -> list[Action]:
        """What becomes of contexts from which nothing was heard for too long: they are finished."""
        late = [name for name, context in self._contexts.items() if self._expires_at(context) <= now]
        if late and not self._request.multi:
            message = f"no message came for {self._request.inactivity_timeout_s:g} s"
            return self._finish_all(ProtocolError("input_timeout_exceeded", message))
        return [action for name in late for action in self._finish(name)]

    @property
    def deadline(self) -> float | None:
        """When to call ``expire`` if no message comes before; None while no context is open."""
        return min(map(self._expires_at, self._contexts.values()), default=None)

    def _receive_single(self, message: _Message, now: float) -> list[Action]:
        if DEFAULT_CONTEXT not in self._contexts:
            return []  # the input has ended before
        ends = message.text == "" and not message.flush
        return self._finish_all() if ends else self._take_text(DEFAULT_CONTEXT, message, now)

    def _open(self, name: str, now: float) -> None:
        if len(self._contexts) >= MAX_CONTEXTS:
            raise ProtocolError(
                "max_active_conversations",
                f"{MAX_CONTEXTS} contexts are open already; close one before {name!r} is opened",
            )
        self._contexts[name] = _Context(now)

    def _take_text(self, name: str, message: _Message, now: float) -> list[Action]:
        context = self._contexts[name]
        context.heard_at = now
        if message.voice_settings and message.voice_settings.speed:
            context.speed = message.voice_settings.speed
        if message.generation_config and message.generation_config.chunk_length_schedule:
            context.cutter.limits = tuple(message.generation_config.chunk_length_schedule)
        phrases = self._cut(context.cutter, message)
        context.spoke = context.spoke or bool(phrases)
        return [Speak(name, phrase, context.speed) for phrase in phrases]

    def _cut(self, cutter: PhraseCutter, message: _Message) -> list[str]:
        text = message.text or ""
        if not cutter.pending:
            text = text.lstrip()  # the first message is one space: nothing to say
        triggered = message.try_trigger_generation and len(cutter.pending + text) >= MIN_TRIGGER
        if message.flush or triggered or (self._request.auto_mode and text):
            return _whole_words(cutter.finish(text))
        return cutter.push(text)

    def _drop(self, name: str) -> Action:
        context = self._contexts.pop(name, None)
        return Finish(name) if context and not context.spoke else Drop(name)

    def _finish(self, name: str) -> list[Action]:
        context = self._contexts.pop(name)
        rest = _whole_words(context.cutter.finish())
        return [*(Speak(name, phrase, context.speed) for phrase in rest), Finish(name)]

    def _finish_all(self, error: ProtocolError | None = None) -> list[Action]:
        return [*(action for name in list(self._contexts) for action in self._finish(name)), HangUp(error)]

    def _expires_at(self, context: _Context) -> float:
        return context.heard_at + self._request.inactivity_timeout_s


def _whole_words(phrases: list[str]) -> list[str]:
    """The last one ends with a space, as the protocol's texts do: clients take a word as over at a space only."""
    return [*phrases[:-1], f"{phrases[-1].rstrip()} "] if phrases else []


def _parse_message(raw: str | bytes) -> _Message:
    if isinstance(raw, bytes):
        raise ProtocolError("invalid_message", "a binary frame came; messages are JSON in text frames")
    try:
        return _Message.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the message"
        raise ProtocolError("invalid_message", f"{place}: {first['msg']}") from error
