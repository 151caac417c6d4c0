"""A model's chat template: prompts as text, tools included whether or not the template knows of any."""

from __future__ import annotations

import json
from typing import Any

from pipeline.backends.tool_calls import CLOSING, OPENING, forced_beginning
from pipeline.ports import Message, Prompt, Tool, ToolCall

SENTENCE_ENDS = ".?!"
_TURN_BORDER = "\u2402"  # stands for the text to come when a template is asked for the prompt around it
_PROBE = Tool("probe_of_the_template", "", {"type": "object", "properties": {}})


class ChatTemplate:
    """Renders prompts for one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        probed = self._apply([{"role": "user", "content": "?"}], [_schema(_PROBE)], closed=True)
        self._knows_tools = _PROBE.name in probed

    def whole(self, prompt: Prompt) -> str:
        """The prompt up to where the reply begins, and the beginning of a reply that has to be a call."""
        return self._render(prompt, closed=True) + forced_beginning(prompt.must_call, prompt.tools)

    def spoken(self, prompt: Prompt) -> tuple[str, str] | None:
        """The prompt up to the user's last message, and this up to its last word; None for another's message."""
        *earlier, last = prompt.messages
        if last.role != "user":
            return None
        border = Prompt((*earlier, Message("user", _TURN_BORDER)), tools=prompt.tools)
        before = self._render(border, closed=False).partition(_TURN_BORDER)[0]
        return before, last.text.rstrip(SENTENCE_ENDS)

    def _render(self, prompt: Prompt, *, closed: bool) -> str:
        if not self._knows_tools:
            return self._apply(_without_tools(prompt), None, closed=closed)
        messages = _joined([_with_tools(message) for message in prompt.messages])
        return self._apply(messages, [_schema(tool) for tool in prompt.tools] or None, closed=closed)

    def _apply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, *, closed: bool) -> str:
        # A template that knows a thinking mode is asked to leave it out; others ignore the argument.
        text: str = self._tokenizer.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=closed, enable_thinking=False
        )
        return text


def _schema(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _with_tools(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        told["tool_calls"] = [_call(call) for call in message.calls]
    if message.call_id:
        told["tool_call_id"] = message.call_id
    return told


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.loads(call.arguments)}
    return {"type": "function", "id": call.id, "function": function}


def _without_tools(prompt: Prompt) -> list[dict[str, Any]]:
    """Tools, calls and outputs told in words, for a template that has no place for them."""
    messages = [_in_words(message) for message in prompt.messages]
    if prompt.tools:
        told = "\n".join(json.dumps(_schema(tool)) for tool in prompt.tools)
        how = f'{OPENING}{{"name": "...", "arguments": {{...}}}}{CLOSING}'
        messages[0]["content"] += (
            f"\n\nThese functions can be called:\n{told}\nTo call one, answer with nothing but {how}"
        )
    return _joined(messages)


def _in_words(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "user", "content": f"<tool_response>{message.text}</tool_response>"}
    calls = "".join(
        f'{OPENING}{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}{CLOSING}'
        for call in message.calls
    )
    return {"role": message.role, "content": message.text + calls}


def _joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of the assistant that follow each other as one: templates want the roles to alternate."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"] == "assistant":
            last = joined[-1]
            last["content"] = f"{last['content']}\n{message['content']}".strip()
            last.setdefault("tool_calls", []).extend(message.get("tool_calls", []))
            if not last["tool_calls"]:
                del last["tool_calls"]
        else:
            joined.append(message)
    return joined
