from __future__ import annotations

from dataclasses import replace

import pytest

from codec.dialogues import SYSTEMS, Example, Turn
from codec.prompts import Prompts
from tests.codec import tiny

SAID = (Turn("assistant", "You leave at noon today."), Turn("user", "My sister Hannah lives in Rome."))
EXAMPLE = Example(SYSTEMS[3], SAID, "Where does she live?", "She lives in Rome, near the river.", answer="Rome")
TEXTS = [turn.text for turn in SAID] + [EXAMPLE.question, EXAMPLE.reply, *SYSTEMS, "Hello. Yes. 7 of them?"]


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    return Prompts(tiny.tokenizer(TEXTS))


def words(prompts: Prompts, ids: list[int]) -> str:
    return str(prompts._tokenizer.decode(ids))


def test_spans_hold_the_words_and_nothing_of_the_template(prompts: Prompts) -> None:
    read = prompts.turns(EXAMPLE.system, SAID)
    spoken = [words(prompts, read.ids[slice(*span)]).replace(" .", ".") for span in read.spans]
    assert spoken == [turn.text for turn in SAID]


def test_a_conversation_that_the_assistant_opens_is_given_an_opening(prompts: Prompts) -> None:
    assert "user Hello" in words(prompts, prompts.turns(EXAMPLE.system, SAID[:1]).ids)


def test_the_tail_is_the_same_with_and_without_the_segments(prompts: Prompts) -> None:
    exchange = prompts.exchange(EXAMPLE)
    assert exchange is not None
    assert exchange.full.ids[-len(exchange.tail) :] == exchange.tail
    assert words(prompts, exchange.tail[exchange.reply_at :]).startswith("She lives in Rome")
    assert len(exchange.alone) == len(exchange.full.spans) == 2


def test_the_answer_is_found_among_the_tokens_of_the_reply(prompts: Prompts) -> None:
    exchange = prompts.exchange(EXAMPLE)
    assert exchange is not None
    assert words(prompts, exchange.tail[exchange.reply_at :][slice(*exchange.answer)]).strip() == "Rome"
    unanswered = prompts.exchange(replace(EXAMPLE, answer=""))
    assert unanswered is not None
    assert unanswered.answer == (0, 0)


def test_every_conversation_behind_a_system_prompt_begins_with_its_prefix(prompts: Prompts) -> None:
    prefix = prompts.prefix(EXAMPLE.system)
    for turns in (SAID, SAID[1:], SAID[:1]):
        assert prompts.turns(EXAMPLE.system, turns).ids[: len(prefix)] == prefix


def test_the_last_tokens_of_a_text_are_its_end(prompts: Prompts) -> None:
    assert prompts.last_tokens("My sister Hannah lives", 2) == ("Hannah lives", 2)
    assert prompts.last_tokens("My sister", 9) == ("My sister", 2)
    assert prompts.last_tokens("My sister", 0) == ("", 0)
