"""History: what was said and what was heard of it, within a token budget."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.ports import Message, Prompt


class History:
    """The exact tier of memory: the system prompt and as many whole messages as the budget holds.

    The oldest messages leave first, and never the ones a reply is being made for. Leaving is by half the budget
    at once, so that the prompt keeps its prefix, and the KV cache its use, for many turns in between.
    """

    def __init__(self, instructions: str, budget_tokens: int, count_tokens: Callable[[str], int]) -> None:
        self.instructions = instructions
        self._budget = budget_tokens
        self._count = count_tokens
        self._messages: list[Message] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is remembered, oldest first."""
        return tuple(self._messages)

    def prompt(self, user_text: str, *, open: bool = False) -> Prompt:
        """What the model reads to answer ``user_text``; words of an unanswered turn before it are joined to it."""
        earlier = list(self._messages)
        while earlier and earlier[-1].role == "user":
            user_text = f"{earlier.pop().text} {user_text}".strip()
        asked = [Message("user", user_text)] if user_text or open else []
        return Prompt((Message("system", self.instructions), *earlier, *asked), open=open)

    def add_user(self, text: str) -> None:
        """The user said this."""
        if text:
            self._add(Message("user", text))

    def add_reply(self, heard: str) -> None:
        """The assistant was heard to say this; a reply nobody heard leaves no trace."""
        if heard:
            self._add(Message("assistant", heard))

    def drop_last_user(self) -> None:
        """The user's last message is being taken back: the turn goes on."""
        if self._messages and self._messages[-1].role == "user":
            self._messages.pop()

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        if self._tokens() > self._budget:
            while len(self._messages) > 1 and self._tokens() > self._budget / 2:
                self._messages.pop(0)

    def _tokens(self) -> int:
        return sum(self._count(message.text) for message in self._messages)
