"""History: what was said and heard, within its budget."""

from __future__ import annotations

from pipeline.history import History
from pipeline.ports import Message


def words(text: str) -> int:
    return len(text.split())


def test_the_prompt_is_the_system_the_history_and_the_question() -> None:
    history = History("Be brief.", 100, words)
    history.add_user("Hello")
    history.add_reply("Hi")
    assert [message.text for message in history.prompt("And now?").messages] == [
        "Be brief.",
        "Hello",
        "Hi",
        "And now?",
    ]


def test_words_that_got_no_answer_are_joined_to_the_next_ones() -> None:
    history = History("Be brief.", 100, words)
    history.add_user("What is the time")
    assert history.prompt("in Rome?").messages[-1].text == "What is the time in Rome?"


def test_a_reply_nobody_heard_leaves_no_trace() -> None:
    history = History("Be brief.", 100, words)
    history.add_reply("")
    assert not history.messages


def test_above_the_budget_the_oldest_leave_and_the_newest_stay() -> None:
    history = History("Be brief.", 10, words)
    for number in range(20):
        history.add_user(f"this is message number {number}")
    assert history.messages[-1].text == "this is message number 19"
    assert sum(words(message.text) for message in history.messages) <= 10


def test_a_turn_taken_back_is_forgotten() -> None:
    history = History("Be brief.", 100, words)
    history.add_user("What is the time?", "this")
    history.remove("this")
    assert not history.messages


def test_a_message_finds_its_place_behind_those_before_it() -> None:
    history = History("Be brief.", 100, words)
    history.add_user("one", "1")
    history.add_user("three", "3")
    history.add(Message("user", "two"), "2", after=("0", "1"))
    history.add(Message("user", "zero"), "0", after=())
    assert [message.text for message in history.messages] == ["zero", "one", "two", "three"]


def test_a_reply_that_was_heard_less_of_says_less() -> None:
    history = History("Be brief.", 100, words)
    history.add_reply("one two three", "reply")
    history.rewrite("reply", "one…")
    assert history.messages == (Message("assistant", "one…"),)
    history.rewrite("reply", "")
    assert not history.messages
