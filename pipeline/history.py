"""History: what was said and what was heard of it, within a token budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from pipeline.ports import Message, Prompt


class History:
    """The exact tier of memory: the system prompt and as many whole messages as the budget holds.

    The oldest messages leave first, and never the ones a reply is being made for. Leaving is by half the budget
    at once, so that the prompt keeps its prefix, and the KV cache its use, for many turns in between.
    A message can be found again by its key; what has left already is not missed.
    """

    def __init__(self, instructions: str, budget_tokens: int, count_tokens: Callable[[str], int]) -> None:
        self.instructions = instructions
        self._budget = budget_tokens
        self._count = count_tokens
        self._messages: dict[str, Message] = {}
        self._unnamed = (f"#{number}" for number in itertools.count(1))

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is remembered, oldest first."""
        return tuple(self._messages.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of these messages."""
        return tuple(self._messages)

    def holds(self, key: str) -> bool:
        """Whether this message is remembered."""
        return key in self._messages

    def prompt(self, user_text: str, *, open: bool = False) -> Prompt:
        """What the model reads to answer ``user_text``; words of an unanswered turn before it are joined to it."""
        return prompt_of(self.instructions, self.messages, user_text, open=open)

    def add_user(self, text: str, key: str | None = None) -> None:
        """The user said this."""
        if text:
            self.add(Message("user", text), key)

    def add_reply(self, heard: str, key: str | None = None) -> None:
        """The assistant was heard to say this; a reply nobody heard leaves no trace."""
        if heard:
            self.add(Message("assistant", heard), key)

    def add(self, message: Message, key: str | None = None, after: Sequence[str] | None = None) -> None:
        """Remember a message: as the newest, or behind the last of the messages ``after``; ``()`` is the front."""
        key = key or next(self._unnamed)
        if after is None:
            self._messages[key] = message
        else:
            entries = [entry for entry in self._messages.items() if entry[0] != key]
            before = set(after)
            place = max((number for number, (other, _) in enumerate(entries, 1) if other in before), default=0)
            self._messages = dict([*entries[:place], (key, message), *entries[place:]])
        self._forget_the_oldest()

    def rewrite(self, key: str, text: str) -> None:
        """The message says this instead; without words it is forgotten."""
        if key in self._messages:
            self._messages[key] = replace(self._messages[key], text=text)
            if not text:
                self.remove(key)

    def remove(self, key: str) -> None:
        """The message was taken back."""
        self._messages.pop(key, None)

    def _forget_the_oldest(self) -> None:
        if self._tokens() > self._budget:
            while not self._down_to_the_question and self._tokens() > self._budget / 2:
                del self._messages[next(iter(self._messages))]

    @property
    def _down_to_the_question(self) -> bool:
        return [message.role for message in self._messages.values()] in ([], ["user"], ["tool"])

    def _tokens(self) -> int:
        return sum(self._count(_all_text(message)) for message in self._messages.values())


def prompt_of(
    instructions: str, messages: Sequence[Message], user_text: str = "", *, open: bool = False
) -> Prompt:
    """The prompt of a conversation that ends with ``user_text``, and with the unanswered words before it."""
    earlier = list(messages)
    while earlier and earlier[-1].role == "user":
        user_text = f"{earlier.pop().text} {user_text}".strip()
    asked = [Message("user", user_text)] if user_text or open else []
    return Prompt((Message("system", instructions), *earlier, *asked), open=open)


def _all_text(message: Message) -> str:
    return " ".join([message.text, *(f"{call.name} {call.arguments}" for call in message.calls)])


def user_key(turn: int) -> str:
    """Under which the history keeps what the user said in a turn."""
    return f"user:{turn}"


def reply_key(turn: int) -> str:
    """Under which the history keeps a turn's reply."""
    return f"reply:{turn}"
