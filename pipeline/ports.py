"""Ports: what a stage needs from a model, and the tree of errors a model may raise.

Adapters live in pipeline/backends/. Every port is awaited: how an adapter keeps its model off the event loop is
the adapter's business (a Worker, a socket). Sound is float32 mono at 16 kHz, shape ``[samples]``, in [-1, 1].
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codec.memory import EchoicMemory
    from codec.window import FusedState, SegmentState

Samples = NDArray[np.float32]
Role = Literal["system", "user", "assistant", "tool"]

RATE_HZ = 16_000
SAMPLES_PER_MS = RATE_HZ // 1000
VAD_FRAME_SAMPLES = 512


class EchoicError(Exception):
    """Anything that Echoic itself reports: what happened, where, and what to do."""


class InputError(EchoicError):
    """What was given cannot be used: a file, a setting, a message."""


class StoreError(EchoicError):
    """A model is missing, corrupt, or cannot be fetched."""


class StageError(EchoicError):
    """A stage failed: its turn ends as failed, the session lives."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may ask for; ``parameters`` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a function; ``arguments`` is a JSON object as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation as the model reads it.

    ``calls`` are what an assistant's message asks for; ``call_id`` says which of them a tool's message answers.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


ANY_TOOL = "required"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads. ``open``: the last message is still being spoken, more of it may follow.

    ``must_call`` is "" where the model may choose, ANY_TOOL, or the name of the tool that it has to call.
    ``state``: what was said before and is not among the messages; it is seen from the last message on.
    """

    messages: tuple[Message, ...]
    open: bool = False
    tools: tuple[Tool, ...] = ()
    must_call: str = ""
    state: FusedState | None = None


# Words whose tokens have at least this mean log-probability are as good as certain. Below it, right or wrong, they
# tend to change when more sound comes, and may have been found in a babble.
TRUSTED_LOGPROB = -0.35


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a recogniser heard in one stretch of sound.

    ``avg_logprob``: natural, the mean over its tokens. ``padded``: a second look was needed, or the whole window
    of 30 s. ``ends``: for each word of the text a sample of the stretch at which it is over, where that was
    asked for. ``sure``: the words are likely to stay when more sound comes or a second look is taken.
    """

    text: str
    avg_logprob: float = 0.0
    padded: bool = False
    ends: tuple[int, ...] = ()
    sure: bool = True

    @property
    def trusted(self) -> bool:
        """Whether the recogniser is as good as certain of the words."""
        return self.avg_logprob >= TRUSTED_LOGPROB


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token: its id and the text it adds ("" while a character is incomplete)."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class PromptRead:
    """How many tokens the prompt of a reply is, and how many of them did not have to be read any more."""

    tokens: int
    cached: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """What one prefill did to the KV cache, in tokens: kept, dropped, computed.

    ``said``: the last message so far, as segments; empty where the model has no codec.
    """

    kept: int
    cropped: int
    computed: int
    said: tuple[SegmentState, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """The model's own hidden states of a turn's words and of the reply's tokens, for it to make segments of."""

    words: Any
    reply: Any


class VoiceActivity(Protocol):
    """Speech probability, frame by frame. One per conversation: it carries state from frame to frame."""

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        """The probability in [0, 1] of each of the next frames of 512 samples that it holds speech."""

    def reset(self) -> None:
        """Forget what was heard."""


class TurnEnd(Protocol):
    """Judges by the sound whether the speaker is done."""

    async def judge(self, sound: Samples) -> float:
        """The probability in [0, 1] that the turn is over, from the last seconds of it."""


class Recogniser(Protocol):
    """Speech to text for one stretch of sound; keeps nothing between calls."""

    async def recognise(
        self,
        sound: Samples,
        *,
        prompt: str = "",
        prefix: str = "",
        guess: str = "",
        timed: bool = False,
        final: bool = False,
    ) -> Hypothesis:
        """What was said, silence being assumed after the last sample.

        ``prompt``: the text before this sound. ``prefix``: what the text of this sound is known to begin with;
        the hypothesis begins with it too. ``guess``: what the text is expected to be; a wrong one only costs time.
        ``timed``: say when each word ends. ``final``: worth a second look where
        the first one is in doubt.
        """


class Conversation(Protocol):
    """A language model's working memory of one conversation. Calls do not overlap."""

    async def prefill(self, prompt: Prompt) -> Prefill:
        """Read as much of the prompt as cannot change any more, ahead of time."""

    def generate(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[Token | ToolCall | PromptRead, None]:
        """Stream the reply to the prompt; closing the iterator stops the model.

        A call of a tool of the prompt comes as a ToolCall, its tokens without text. A PromptRead comes once, where
        the model can tell.
        """

    @property
    def text_done(self) -> float | None:
        """The probability that a sentence ends where the user stopped, known once ``generate`` has yielded.

        None where the model cannot tell.
        """

    @property
    def exchange(self) -> Exchange | None:
        """The hidden states of the last prompt's message and of what ``generate`` has replied to it so far.

        None where nothing was generated, or the model has no codec.
        """

    async def segments(
        self, exchange: Exchange, reply_tokens: int
    ) -> tuple[tuple[SegmentState, ...], tuple[SegmentState, ...]]:
        """The message as segments, and the first so many tokens of the reply."""

    async def forget(self) -> None:
        """Overwrite all that was said, in whatever form it is held; what stands before the last message stays."""

    async def close(self) -> None:
        """Free the memory."""


class LanguageModel(Protocol):
    """One set of weights; makes a Conversation for every session."""

    def open(self) -> Conversation:
        """A conversation with an empty memory."""

    def count_tokens(self, text: str) -> int:
        """How many tokens the text is."""

    def new_memory(self) -> EchoicMemory | None:
        """An empty echoic memory for one session; None where the model has no codec."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A spoken phrase: float32 mono ``[samples]`` at ``rate_hz`` and when each character of the text begins.

    ``starts_ms`` and ``durations_ms`` have one entry a character of ``text``, relative to the first sample.
    """

    samples: Samples
    rate_hz: int
    text: str
    starts_ms: tuple[int, ...]
    durations_ms: tuple[int, ...]


class Voice(Protocol):
    """Text to speech, a phrase at a time."""

    async def speak(self, phrase: str, speed: float = 1.0) -> Speech:
        """The phrase as sound, without silence in front of it."""
