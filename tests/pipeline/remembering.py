"""A scripted model with an echoic memory whose states can be read back."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import torch

from codec.health import Calibration
from codec.memory import EchoicMemory
from codec.window import SegmentState, StateWindow
from pipeline.ports import Exchange, Prefill, Prompt, PromptRead, Token, ToolCall
from tests.pipeline.conversation import Conversation, ScriptedModel, Segments

WIDTH = 160


class RememberingModel(ScriptedModel):
    """Makes segments whose numbers are the characters of what was said."""

    def __init__(self, reply: str, cost: float) -> None:
        super().__init__(reply, cost)
        self.exchange: Exchange | None = None
        self.told: list[list[str]] = []  # what the state of each prompt says
        self.asked: list[list[str]] = []  # the messages of each prompt
        self.sick = False
        self.warnings: list[str] = []

    def new_memory(self) -> EchoicMemory:
        usual = Calibration(torch.zeros(WIDTH), torch.full((WIDTH,), 100.0), -1.0, 99.0, 99.0)
        return EchoicMemory(usual, StateWindow(), self.warnings.append)

    async def prefill(self, prompt: Prompt) -> Prefill:
        await super().prefill(prompt)
        return Prefill(0, 0, 1, (self._segment(prompt.messages[-1].text),))

    async def generate(
        self, prompt: Prompt, max_tokens: int
    ) -> AsyncGenerator[Token | ToolCall | PromptRead, None]:
        self.told.append(says(prompt))
        self.asked.append([message.text for message in prompt.messages[1:]])
        self.exchange = Exchange(prompt.messages[-1].text, [])
        async for token in super().generate(prompt, max_tokens):
            if isinstance(token, Token):
                self.exchange.reply.append(token.text)
            yield token

    async def segments(self, exchange: Exchange, reply_tokens: int) -> tuple[Segments, Segments]:
        heard = "".join(exchange.reply[:reply_tokens]).strip()
        return (self._segment(exchange.words),), (self._segment(heard),) if heard else ()

    async def forget(self) -> None:
        await super().forget()
        self.exchange = None

    def _segment(self, text: str) -> SegmentState:
        values = torch.zeros(1, WIDTH, dtype=torch.int8)
        values[0, : len(text)] = torch.tensor(list(text.encode("ascii")), dtype=torch.int8)
        return SegmentState(values, float("inf") if self.sick else 1.0, len(text.split()))


def says(prompt: Prompt) -> list[str]:
    """What the state of a prompt says, oldest first."""
    segments = prompt.state.segments if prompt.state else ()
    return [bytes(segment.values[0].tolist()).rstrip(b"\0").decode() for segment in segments]


class RememberingConversation(Conversation):
    """A conversation with a memory."""

    def _model(self, reply: str, cost: float) -> RememberingModel:
        return RememberingModel(reply, cost)
