"""Tool calls in what a model writes: told apart from its words as the text comes, and parsed strictly.

Two ways of writing a call are known: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` anywhere in the
reply (Hermes, Qwen, SmolLM), and a reply that is nothing but the JSON of one call or a list of them (Llama and
Mistral, whose own marks are special tokens that do not show).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from pipeline.ports import ANY_TOOL, StageError, Tool, ToolCall

OPENING, CLOSING = "<tool_call>", "</tool_call>"
LONGEST_CALL = 20_000  # characters

Said = tuple[str, list[ToolCall]]  # words, then the calls that follow them


class _Call(BaseModel):
    name: str
    arguments: dict[str, Any] = Field({}, validation_alias=AliasChoices("arguments", "parameters"))


_CALLS: TypeAdapter[_Call | list[_Call]] = TypeAdapter(_Call | list[_Call])


class ToolCallReader:
    """Fed with a reply's text, gives its words and its calls; without tools all of it is words.

    A call is over with its JSON, since some models leave the closing mark out. A marked call that is none is a
    StageError; an unmarked one is taken for words. ``beginning`` is what the model was made to begin with.
    """

    def __init__(self, tools: Sequence[Tool], beginning: str = "") -> None:
        self._names = frozenset(tool.name for tool in tools)
        self._held = ""
        self._in_call = False
        self._after_call = False  # a closing mark may follow
        self._begun = False  # whether a word has come out already
        self.push(beginning)

    def push(self, text: str) -> Said:
        """More of the reply; returns what is certain now."""
        if not self._names:
            return text, []
        self._held += text
        words, calls = "", list[ToolCall]()
        while True:
            if self._in_call:
                more = self._next_call()
                calls += more
                if not more:
                    return words, calls
            words += self._next_words()
            if not self._in_call:
                return words, calls

    def finish(self) -> Said:
        """The reply is over; returns the rest of it."""
        rest, self._held = self._held, ""
        if self._in_call:
            raise _no_call(rest)
        if self._is_bare(rest) and (calls := self._parse(rest)) is not None:
            return "", calls
        return self._words(rest), []

    def _next_call(self) -> list[ToolCall]:
        """The call that is being written, once it is whole."""
        try:
            _, end = json.JSONDecoder().raw_decode(self._held.lstrip())
        except (ValueError, RecursionError):
            if CLOSING in self._held or len(self._held) > LONGEST_CALL:
                raise _no_call(self._held) from None
            return []
        body = self._held.lstrip()
        calls = self._parse(body[:end])
        if calls is None:
            raise _no_call(body)
        self._held, self._in_call, self._after_call = body[end:], False, True
        return calls

    def _next_words(self) -> str:
        """The words up to the next call, as far as they are certain."""
        if self._after_call:
            rest = self._held.lstrip()
            if len(rest) < len(CLOSING) and CLOSING.startswith(rest):
                return ""
            self._held, self._after_call = rest.removeprefix(CLOSING), False
        if self._is_bare(self._held) and len(self._held) <= LONGEST_CALL:
            return ""
        before, mark, after = self._held.partition(OPENING)
        if mark:
            self._held, self._in_call = after, True
            return self._words(before)
        settled = len(self._held) - _overlap(self._held, OPENING)
        words, self._held = self._held[:settled], self._held[settled:]
        return self._words(words)

    def _words(self, text: str) -> str:
        """The text as it is; white space around calls is none of the reply's words."""
        if not text.strip() and not self._begun:
            return ""
        self._begun = True
        return text

    def _is_bare(self, text: str) -> bool:
        return not self._begun and text.lstrip()[:1] in ("{", "[")

    def _parse(self, body: str) -> list[ToolCall] | None:
        try:
            parsed = _CALLS.validate_json(body.strip())
        except ValidationError:
            return None
        calls = parsed if isinstance(parsed, list) else [parsed]
        if not calls or any(call.name not in self._names for call in calls):
            return None
        return [
            ToolCall(f"call_{secrets.token_urlsafe(16)}", call.name, json.dumps(call.arguments)) for call in calls
        ]


def forced_beginning(must_call: str, tools: Sequence[Tool]) -> str:
    """How a reply begins that has to be a call: of any tool, or of this one, up to its first required argument."""
    if not must_call:
        return ""
    if must_call == ANY_TOOL and len(tools) > 1:
        return f'{OPENING}{{"name": "'
    tool = next(tool for tool in tools if must_call in (ANY_TOOL, tool.name))
    required = tool.parameters.get("required")
    first = f'"{required[0]}":' if isinstance(required, list) and required else ""
    return f'{OPENING}{{"name": {json.dumps(tool.name)}, "arguments": {{{first}'


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of the text could be the beginning of the mark."""
    return next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)


def _no_call(body: str) -> StageError:
    return StageError("language model", f"it wrote a tool call that is none: {body.strip()[:200]}")
