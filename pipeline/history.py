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
        self._first = 0  # the number of the oldest message

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is remembered, oldest first."""
        return tuple(self._messages)

    @property
    def numbers(self) -> range:
        """The numbers of these messages, counted since the conversation began."""
        return range(self._first, self._first + len(self._messages))

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

    def forget(self, before: int) -> None:
        """Drop the messages with a number below this, whatever the budget is."""
        while self._messages and self._first < before:
            self._drop_oldest()

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        if self._tokens() > self._budget:
            while not self._down_to_the_question and self._tokens() > self._budget / 2:
                self._drop_oldest()

    @property
    def _down_to_the_question(self) -> bool:
        return not self._messages or (len(self._messages) == 1 and self._messages[0].role == "user")

    def _drop_oldest(self) -> None:
        self._messages.pop(0)
        self._first += 1

    def _tokens(self) -> int:
        return sum(self._count(message.text) for message in self._messages)
