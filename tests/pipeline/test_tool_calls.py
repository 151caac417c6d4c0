"""Tool calls in a model's text: found wherever the pieces break, parsed strictly, told in any chat template."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.backends.chat_template import ChatTemplate
from pipeline.backends.tool_calls import ToolCallReader, forced_beginning
from pipeline.ports import ANY_TOOL, Message, Prompt, StageError, Tool, ToolCall

WEATHER = Tool("weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
MARKED = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
ASKED = (Message("system", "Be brief."), Message("user", "Weather?"))


def read(*pieces: str, beginning: str = "", tools: tuple[Tool, ...] = (WEATHER,)) -> tuple[str, list[Any]]:
    """The words and the calls in it."""
    reader = ToolCallReader(tools, beginning)
    said = [reader.push(piece) for piece in pieces] + [reader.finish()]
    calls = [(call.name, json.loads(call.arguments)) for _, calls in said for call in calls]
    return "".join(words for words, _ in said), calls


ROME = ("weather", {"city": "Rome"})


@pytest.mark.parametrize(
    ("text", "words", "calls"),
    [
        ("It rains.", "It rains.", []),
        (MARKED, "", [ROME]),
        (f"One moment. {MARKED}", "One moment. ", [ROME]),
        (MARKED + "\n" + MARKED, "", [ROME, ROME]),
        (MARKED.removesuffix("</tool_call>"), "", [ROME]),
        (MARKED.removesuffix("</tool_call>") + " So.", "So.", [ROME]),
        ('<tool_call>[{"name": "weather", "arguments": {"city": "Rome"}}]</tool_call>', "", [ROME]),
        ('{"name": "weather", "parameters": {"city": "Rome"}}', "", [ROME]),
        ('[{"name": "weather", "arguments": {"city": "Rome"}}]', "", [ROME]),
        ('{"name": "unknown", "arguments": {}}', '{"name": "unknown", "arguments": {}}', []),
        ("{smiles} Hello", "{smiles} Hello", []),
        ("1 <2 and <tool", "1 <2 and <tool", []),
    ],
)
def test_words_and_calls_are_told_apart(text: str, words: str, calls: list[Any]) -> None:
    assert read(text) == (words, calls)


@given(st.lists(st.integers(0, 90), max_size=6))
def test_where_the_pieces_break_makes_no_difference(cuts: list[int]) -> None:
    text = f"Let me see. {MARKED} Done."
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert read(*pieces) == read(text)


@pytest.mark.parametrize("body", ["", "{", "rain", '{"name": "unknown"}', '{"name": "weather", "arguments": 3}'])
def test_a_marked_call_that_is_none_is_a_clear_error(body: str) -> None:
    with pytest.raises(StageError, match="a tool call that is none"):
        read(f"<tool_call>{body}</tool_call>")


def test_a_call_without_end_is_given_up() -> None:
    with pytest.raises(StageError, match="a tool call that is none"):
        read("<tool_call>" + "x" * 30_000)


def test_without_tools_all_of_it_is_words() -> None:
    assert read(MARKED, tools=()) == (MARKED, [])


def test_words_are_let_out_as_they_come() -> None:
    assert ToolCallReader((WEATHER,)).push("It rains") == ("It rains", [])


def test_a_model_made_to_call_a_tool_only_writes_the_rest_of_it() -> None:
    beginning = forced_beginning("weather", (WEATHER,))
    assert read(MARKED.removeprefix(beginning), beginning=beginning) == ("", [ROME])


@pytest.mark.parametrize(("demand", "shown"), [("", ""), ("weather", '"city":'), (ANY_TOOL, '"city":')])
def test_a_call_begins_with_its_first_required_argument(demand: str, shown: str) -> None:
    tool = replace(WEATHER, parameters={**WEATHER.parameters, "required": ["city"]})
    assert forced_beginning(demand, (tool,)).endswith(shown)


class Tokenizer:
    """A chat template that shows everything it is told."""

    def __init__(self, knows_tools: bool) -> None:
        self.knows_tools = knows_tools

    def apply_chat_template(self, messages: list[dict[str, Any]], *, tools: Any, **_how: Any) -> str:
        return json.dumps([tools if self.knows_tools else None, messages], ensure_ascii=False)


CALL = ToolCall("call_1", "weather", '{"city": "Rome"}')
ANSWERED = (
    *ASKED,
    Message("assistant", "One moment."),
    Message("assistant", "", calls=(CALL,)),
    Message("tool", "sunny", call_id="call_1"),
)


def test_a_template_that_knows_tools_is_given_them() -> None:
    rendered = ChatTemplate(Tokenizer(knows_tools=True)).whole(Prompt(ANSWERED, tools=(WEATHER,)))
    tools, messages = json.loads(rendered)
    assert tools[0]["function"]["name"] == "weather"
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[2]["tool_calls"][0]["function"]["arguments"] == {"city": "Rome"}


def test_a_template_that_knows_none_is_told_of_them_in_words() -> None:
    rendered = ChatTemplate(Tokenizer(knows_tools=False)).whole(Prompt(ANSWERED, tools=(WEATHER,)))
    _, messages = json.loads(rendered)
    assert "Tells the weather." in messages[0]["content"]
    assert messages[2]["content"].endswith(MARKED)
    assert messages[3] == {"role": "user", "content": "<tool_response>sunny</tool_response>"}


def test_the_prompt_up_to_the_last_word_is_the_beginning_of_the_prompt() -> None:
    template = ChatTemplate(Tokenizer(knows_tools=True))
    prompt = Prompt(ASKED, tools=(WEATHER,))
    assert template.whole(prompt).startswith("".join(template.spoken(prompt) or "?"))
    assert template.spoken(Prompt(ANSWERED)) is None
