"""Desk: what the parts of one session share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from pipeline.actions import Action
from pipeline.channel import Channel
from pipeline.events import SessionEvent
from pipeline.history import History
from pipeline.replies import Replies
from pipeline.replying import ReplyOver
from pipeline.timing import Clock, TurnRecord
from pipeline.turns import TurnKeeper


@dataclass(frozen=True, slots=True)
class Desk:
    """Whose turn it is, what was said, and how to get things done: ``actions`` are carried out in their order.

    ``records`` are those of the turns that are open or being answered; ``spawn`` makes a task of the session's.
    """

    keeper: TurnKeeper
    history: History
    replies: Replies
    records: dict[int, TurnRecord]
    events: Channel[SessionEvent]
    actions: Channel[Action | ReplyOver]
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    clock: Clock

    async def ask_for(self, actions: list[Action]) -> None:
        """Have this done, after what was asked for before."""
        for action in actions:
            await self.actions.send(action)
