"""Configuration: frozen, one section a stage, read once at the edge from TOML and overrides."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from pipeline.ports import InputError

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_STRICT)
class AsrConfig:
    """Speech recognition. ``model``: a store entry, a local folder or a hub id."""

    model: str = "whisper-base"
    language: str = "en"
    tick_ms: int = 200
    threads: int = 1  # a second thread gains little and fights the language model at the pause


@dataclass(frozen=True, config=_STRICT)
class LlmConfig:
    """The language model. ``model``: a store entry, a local folder, a hub id, or ``openai:URL#MODEL``."""

    model: str = "smollm2-135m-instruct"
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    decoder: Literal["auto", "lean", "stock"] = "auto"
    threads: int = 0  # 0: as many as there are cores
    guesses: bool = True  # likely tokens are read along with certain ones: the same words, sooner
    temperature: float = 0.0
    max_tokens: int = 120
    history_tokens: int = 1024
    instructions: str = (
        "You are Echoic, a friendly voice assistant. Answer in one or two short spoken sentences. "
        "Use plain words, no lists and no markdown."
    )


@dataclass(frozen=True, config=_STRICT)
class MemoryConfig:
    """What of a turn outlives it. ``codec``: a codec file; "" is the one that comes with Echoic for the model.

    ``exact``: the words, within ``llm.history_tokens``, and the state of what fell out of them. ``echoic``
    (private mode): the state alone.
    """

    mode: Literal["exact", "echoic"] = "exact"
    codec: str = ""
    segments: int = Field(default=3, ge=1)
    decay: float = Field(default=0.7, gt=0, le=1)
    expiry_s: float = Field(default=3.0, gt=0)


@dataclass(frozen=True, config=_STRICT)
class SpeechConfig:
    """Text to speech. ``url``: any server of the ElevenLabs protocol; "" is the embedded one."""

    voice: str = "heart"
    url: str = ""
    rate_hz: int = 24_000


@dataclass(frozen=True, config=_STRICT)
class ListenConfig:
    """Voice activity: probabilities, and milliseconds of sound."""

    start_probability: float = 0.5
    stop_probability: float = 0.35
    start_ms: int = 64
    pause_ms: int = 64
    preroll_ms: int = 400
    gap_ms: int = 600  # no frame for this long while speech is open counts as silence
    buffered_ms: float = 5_000.0  # live sound that waits longer than this is worth less than the sound after it


@dataclass(frozen=True, config=_STRICT)
class TurnConfig:
    """When a turn ends, and what interrupts a reply. Milliseconds."""

    replies: bool = True  # False: a turn is transcribed, and answered only when the client asks for it
    interrupts: bool = True  # False: a reply is heard out, whoever speaks over it
    drafts: bool = True
    max_drafts: int = 4
    fixed_wait_ms: int = 0  # above 0: silence this long ends a turn, whatever the evidence
    shortest_wait_ms: int = 192
    undecided_wait_ms: int = 800
    statement_wait_ms: int = 1250  # people go on after a statement more often than after a question
    longest_wait_ms: int = 1500
    dictation_wait_ms: int = 1700
    longest_turn_ms: int = 60_000
    commit_patience_ms: int = 1000  # after the decision, how long the commit waits for the first audio
    transcript_patience_ms: int = 3000
    barge_in_ms: int = 64  # speech this long pauses the reply
    barge_in_word_ms: int = 350  # a word interrupts once the speech is this long; "stop" does so at once
    barge_in_sure_ms: int = 700  # speech this long interrupts although no word was recognised in time
    backchannel_ms: int = 1200  # no backchannel lasts longer than this
    wordless_ms: int = 1600  # and speech without a word for so long is none
    sure: float = 0.85  # Smart Turn's probability from which on the shortest wait holds
    unlikely_text: float = 0.03  # the model's probability of a sentence end below which more is expected
    doubtful_text: float = 0.15  # the same where the sound is not sure either


@dataclass(frozen=True, config=_STRICT)
class PlaybackConfig:
    """Audio on its way to the client."""

    lead_ms: int = 100  # what the client may hold; more is smoother, less stops sooner
    slice_ms: int = 20
    fade_ms: int = 20


@dataclass(frozen=True, config=_STRICT)
class ServerConfig:
    """The doors. ``cert`` and ``cert_key`` are PEM files; with them the server speaks TLS only."""

    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)
    origins: tuple[str, ...] = ()  # web pages from elsewhere that may connect, "https://app.example"; "*" is any
    cert: str = ""
    cert_key: str = ""
    max_sessions: int = 8
    full_share: float = Field(default=0.5, gt=0)  # of the cores' time; nobody new who would make it more
    finish_s: float = 10.0  # a server that stops lets running turns go on for so long, then cuts them
    close_deadline_s: float = 5.0
    self_test_s: float = Field(default=600.0, ge=0)  # how often an idle server asks itself something; 0: never


@dataclass(frozen=True, config=_STRICT)
class LimitsConfig:
    """What one client may ask of the server."""

    message_bytes: int = Field(default=16 * 1024 * 1024, gt=0)  # the protocol allows 15 MiB of audio in one append
    bytes_per_s: float = Field(default=4_000_000, gt=0)  # a client that sends more is read more slowly
    events_per_s: float = Field(default=1_000, gt=0)
    session_s: float = Field(default=86_400, gt=0)
    sessions_per_key: int = Field(default=8, gt=0)
    unsent_ms: float = Field(default=5_000, gt=0)  # sound that a client has not taken; above, it is sent away
    resume_s: float = Field(default=30, gt=0)  # how long a session waits for a client that asked for it
    open_s: float = Field(default=10, gt=0)  # for the request and the handshake
    close_s: float = Field(default=2, gt=0)  # for the closing handshake with a client that may be gone
    ping_s: float = Field(default=20, gt=0)  # how often, and how long a pong may take
    secret_s: int = Field(default=600, gt=0)  # how long a client secret opens the door, unless asked otherwise


@dataclass(frozen=True, config=_STRICT)
class Config:
    """Everything that can be set, with defaults that work on two cores without a GPU."""

    asr: AsrConfig = field(default_factory=AsrConfig)
    llm: LlmConfig = field(default_factory=LlmConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    speech: SpeechConfig = field(default_factory=SpeechConfig)
    listen: ListenConfig = field(default_factory=ListenConfig)
    turn: TurnConfig = field(default_factory=TurnConfig)
    playback: PlaybackConfig = field(default_factory=PlaybackConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)


def load_config(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration from a TOML file and dotted overrides such as ``{"llm.max_tokens": 60}``.

    Raises InputError naming the setting that is unknown or has a bad value.
    """
    tree = _read_toml(path) if path else {}
    for dotted, value in (overrides or {}).items():
        section, _, key = dotted.partition(".")
        tree.setdefault(section, {})[key] = value
    try:
        return TypeAdapter(Config).validate_python(tree)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"configuration: {where}: {first['msg']} (got {first['input']!r})") from error


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"configuration: cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"configuration: {path} is not valid TOML: {error}") from error
