"""A language model's tokenizer without transformers, which takes seconds to import.

transformers wraps a tokenizer of the `tokenizers` library and renders chat templates with jinja2. So does this,
with what was in the wrapper written down. Whether both say the same is tried before anybody relies on it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Self

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

_TOKENIZER, _CHAT = "tokenizer.json", "chat.json"


class PlainTokenizer:
    """The part of transformers' tokenizers that a conversation needs, by the same names."""

    def __init__(self, backend: Tokenizer, chat_template: str, special_tokens: dict[str, str]) -> None:
        self.backend_tokenizer = backend
        self.chat_template = chat_template
        self._special_tokens = special_tokens

    @classmethod
    def of(cls, tokenizer: Any) -> Self | None:
        """What is inside a tokenizer of transformers; None where that alone does not say the same."""
        backend, template = getattr(tokenizer, "backend_tokenizer", None), tokenizer.chat_template
        if backend is None or not isinstance(template, str):
            return None
        plain = cls(backend, template, tokenizer.special_tokens_map)
        return plain if agree(plain, tokenizer) else None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """One that was written. Raises OSError, ValueError or KeyError where there is none."""
        chat = json.loads((folder / _CHAT).read_bytes())
        backend = Tokenizer.from_buffer((folder / _TOKENIZER).read_bytes())
        return cls(backend, chat["template"], chat["special_tokens"])

    def write(self, folder: Path) -> None:
        """Write it into a folder."""
        self.backend_tokenizer.save(str(folder / _TOKENIZER))
        chat = {"template": self.chat_template, "special_tokens": self._special_tokens}
        (folder / _CHAT).write_text(json.dumps(chat))

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The text's token ids."""
        ids: list[int] = self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of token ids."""
        text: str = self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        return text

    def apply_chat_template(
        self, messages: list[dict[str, Any]], *, tools: list[dict[str, Any]] | None = None, **arguments: Any
    ) -> str:
        """The conversation as text. Raises TemplateError where the template refuses it."""
        known = self._special_tokens | arguments
        return self._template.render(messages=messages, tools=tools, documents=None, **known)

    @cached_property
    def _template(self) -> Template:
        # Templates come with models: they are not trusted with anything but their own variables.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        return environment.from_string(self.chat_template)


def agree(plain: PlainTokenizer, tokenizer: Any) -> bool:
    """Whether both say the same, on all kinds of text that conversations have."""
    return all(_said(plain, *talk) == _said(tokenizer, *talk) for talk in product(_TALKS, (None, [_TOOL])))


def _said(tokenizer: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[Any]:
    """The talk as text and as tokens, and all beginnings of these as text again."""
    text = _rendered(tokenizer, messages, tools)
    ids = tokenizer.encode(text, add_special_tokens=False)
    return [text, ids, *(tokenizer.decode(ids[:end], skip_special_tokens=True) for end in range(len(ids)))]


def _rendered(tokenizer: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str:
    try:
        text: str = tokenizer.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return text
    except TemplateError as error:
        return f"refused: {error}"


_TOOL = {
    "type": "function",
    "function": {
        "name": "set_timer",
        "description": "Sets the <kitchen> timer & starts it – “now”.",
        "parameters": {"type": "object", "properties": {"minutes": {"type": "number"}}, "required": ["minutes"]},
    },
}
_CALL = {"type": "function", "id": "call_1", "function": {"name": "set_timer", "arguments": {"minutes": 2.5}}}
_TALKS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}],
    [
        {"role": "system", "content": "You are brief.\n  Two spaces, and a tab:\t."},
        {"role": "user", "content": " What's 1,234.5 + 7 ? It 's for \"Łódź\" – 東京 🙂 , isn 't it ."},
        {"role": "assistant", "content": "", "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"done": true}'},
        {"role": "assistant", "content": "Done <|im_end|> </s> it is !"},
        {"role": "user", "content": "…"},
    ],
]


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _refuse(why: str) -> None:
    raise TemplateError(why)


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)
