"""What clients give: fields of their events checked, items and tools brought into the session's own form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.ports import ANY_TOOL, Message, Role, Tool, ToolCall
from pipeline.utterance import spoken_form
from server.wire import new_id

MOST_TEXT = 50_000  # characters an item: reading more would keep every other session waiting
MOST_PARTS = 100
MOST_TOOLS = 128

# The part types of each role's messages, and under which key each keeps its words.
_WORDS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "input_audio": "transcript",
    "output_audio": "transcript",
    "audio": "transcript",
}
_PARTS: dict[str, frozenset[str]] = {
    "user": frozenset({"input_text", "input_audio", "input_image"}),
    "system": frozenset({"input_text"}),
    "assistant": frozenset({"output_text", "output_audio", "text", "audio"}),
}
_GA_NAMES = {"text": "output_text", "audio": "output_audio"}


class ProtocolError(Exception):
    """What the client sent cannot be done: told to it as an ``error`` event; the session goes on."""

    def __init__(
        self,
        code: str,
        message: str,
        param: str | None = None,
        *,
        kind: str = "invalid_request_error",
        event_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.param = param
        self.kind = kind
        self.event_id = event_id


def given_object(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A field that has to be an object."""
    value = body.get(key)
    if not isinstance(value, dict):
        raise ProtocolError("invalid_type", f"Invalid type for '{key}': expected an object.", key)
    return value


def given_string(body: Mapping[str, Any], key: str, param: str | None = None) -> str:
    """A field that has to be a string."""
    value = body.get(key)
    if not isinstance(value, str):
        param = param or key
        raise ProtocolError("invalid_type", f"Invalid type for '{param}': expected a string.", param)
    return value


def given_number(body: Mapping[str, Any], key: str) -> float:
    """A field that has to be a number; never NaN or infinite."""
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise ProtocolError("invalid_type", f"Invalid type for '{key}': expected a number.", key)
    return value


def given_item(given: Mapping[str, Any]) -> dict[str, Any]:
    """An item that the client made, complete, with an id and without its sound. Raises ProtocolError."""
    item_id = given.get("id")
    item = {
        "id": item_id if isinstance(item_id, str) and item_id else new_id("item"),
        "object": "realtime.item",
        "type": given.get("type"),
        "status": "completed",
    }
    match item["type"]:
        case "message":
            return {**item, **_message(given)}
        case "function_call":
            return {**item, **_call(given)}
        case "function_call_output":
            call_id, output = (given_string(given, key, f"item.{key}") for key in ("call_id", "output"))
            return {**item, "call_id": call_id, "output": _bounded(output, "item.output")}
    supported = "'message', 'function_call', and 'function_call_output'"
    raise ProtocolError(
        "invalid_value", f"Invalid value: '{item['type']}'. Supported values are: {supported}.", "item.type"
    )


def message_of(item: Mapping[str, Any]) -> Message | None:
    """What the model reads of an item; None if there are no words in it."""
    match item["type"]:
        case "function_call":
            return Message("assistant", "", calls=(ToolCall(item["call_id"], item["name"], item["arguments"]),))
        case "function_call_output":
            return Message("tool", item["output"], call_id=item["call_id"])
    words = [part.get(_WORDS.get(part["type"], "")) for part in item["content"]]
    text = " ".join(word for word in words if word)
    role: Role = item["role"]
    return Message(role, spoken_form(text) if role == "user" else text) if text else None


def given_tools(given: object, param: str) -> tuple[Tool, ...]:
    """The functions among the tools of a session or response; servers of tools (MCP) are not called from here."""
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) > MOST_TOOLS:
        raise ProtocolError(
            "invalid_type", f"Invalid type for '{param}': expected up to {MOST_TOOLS} tools.", param
        )
    return tuple(
        _tool(tool, f"{param}[{number}]")
        for number, tool in enumerate(given)
        if not isinstance(tool, dict) or tool.get("type", "function") == "function"
    )


def must_call(choice: object, tools: Sequence[Tool]) -> str:
    """The tool that a ``tool_choice`` demands, ANY_TOOL, or ""; a demand that no tool meets is none."""
    if choice == "required":
        return ANY_TOOL if tools else ""
    wanted = choice.get("name") if isinstance(choice, dict) else None
    return next((tool.name for tool in tools if tool.name == wanted), "")


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    role, content = given.get("role"), given.get("content", [])
    if role not in _PARTS:
        message = f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', and 'user'."
        raise ProtocolError("invalid_value", message, "item.role")
    if not isinstance(content, list) or len(content) > MOST_PARTS:
        raise ProtocolError("invalid_type", "Invalid type for 'item.content': expected an array.", "item.content")
    return {"role": role, "content": [_part(part, role, number) for number, part in enumerate(content)]}


def _part(part: object, role: str, number: int) -> dict[str, Any]:
    where = f"item.content[{number}]"
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str) or kind not in _PARTS[role]:
        supported = ", ".join(f"'{name}'" for name in sorted(_PARTS[role]))
        raise ProtocolError("invalid_value", f"Invalid value: '{kind}'. Supported values are: {supported}.", where)
    if kind == "input_image":
        return {"type": kind}  # nobody here can see it
    key = _WORDS[kind]
    words = part.get(key)
    if words is None and key == "transcript":
        return {"type": _GA_NAMES.get(kind, kind), key: None if role == "user" else ""}
    return {"type": _GA_NAMES.get(kind, kind), key: _bounded(given_string(part, key, f"{where}.{key}"), where)}


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    arguments = given_string(given, "arguments", "item.arguments")
    try:
        meant = json.loads(_bounded(arguments, "item.arguments"))
    except (ValueError, RecursionError):
        meant = None
    if not isinstance(meant, dict):
        message = "Invalid value for 'item.arguments': expected a JSON object as a string."
        raise ProtocolError("invalid_value", message, "item.arguments")
    name, call_id = given_string(given, "name", "item.name"), given.get("call_id")
    call_id = call_id if isinstance(call_id, str) and call_id else new_id("call")
    return {"call_id": call_id, "name": name, "arguments": arguments}


def _tool(tool: object, where: str) -> Tool:
    if not isinstance(tool, dict):
        raise ProtocolError("invalid_type", f"Invalid type for '{where}': expected an object.", where)
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    description = tool.get("description")
    if not isinstance(parameters, dict):
        raise ProtocolError("invalid_type", f"Invalid type for '{where}.parameters': expected an object.", where)
    name = given_string(tool, "name", f"{where}.name")
    return Tool(name, description if isinstance(description, str) else "", parameters)


def _bounded(text: str, param: str) -> str:
    if len(text) > MOST_TEXT:
        message = f"Invalid '{param}': string too long. Expected at most {MOST_TEXT} characters, got {len(text)}."
        raise ProtocolError("string_above_max_length", message, param)
    return text
