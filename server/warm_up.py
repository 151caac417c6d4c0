"""Warm-up: the first user does not pay for what the models make on first use."""

from __future__ import annotations

import asyncio

import numpy as np

from pipeline.backends.loader import Models
from pipeline.ports import RATE_HZ, Message, Prompt


async def warm_up(models: Models, instructions: str) -> None:
    """Run every model once."""
    silence = np.zeros(RATE_HZ, np.float32)
    conversation = models.language_model.open()
    prompt = Prompt((Message("system", instructions), Message("user", "")), open=True)
    async with asyncio.TaskGroup() as work:
        work.create_task(models.turn_end.judge(silence))
        work.create_task(models.recogniser.recognise(silence))
        work.create_task(conversation.prefill(prompt))
    await conversation.close()
