"""What a client can ask of a session beyond talking to it: push to talk, its own replies, tools, silence."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.events import (
    NobodySpoke,
    ReplyAudio,
    ReplyCalled,
    ReplyEnded,
    ReplyRefused,
    ReplyStarted,
    TurnFailed,
    UserStarted,
    UserStopped,
)
from pipeline.ports import Message, PromptRead, Tool, ToolCall
from pipeline.requests import ReplyRequest, TurnDetection
from tests.pipeline.conversation import Conversation, Say

pytestmark = pytest.mark.looptime(start=0)

ASKED = Say(0.512, 1.536, "What is the time?")
CALL = ToolCall("call_1", "clock", "{}")
CLOCK = Tool("clock", "Tells the time.", {"type": "object", "properties": {}})


def detecting(talk: Conversation, defaults: ReplyRequest | None = None, **settings: Any) -> Conversation:
    """The talk under these rules from its beginning."""
    talk.at(0, lambda: talk.session.configure(TurnDetection(**settings), defaults or ReplyRequest()))
    return talk


async def test_sound_that_is_pushed_to_talk_is_a_turn_when_it_is_committed() -> None:
    talk = detecting(Conversation(ASKED), push_to_talk=True)
    talk.at(2.5, talk.session.commit_sound)
    talk.at(2.5, lambda: talk.session.respond(ReplyRequest("mine")))
    log = await talk.run(6)
    assert log.transcripts == ["What is the time?"]
    assert log.all(ReplyStarted) == [ReplyStarted(1, "mine")]
    assert not log.all(UserStarted)
    assert talk.history == [("user", "What is the time?"), ("assistant", "It is ten ")]


async def test_words_are_read_ahead_while_the_button_is_held() -> None:
    talk = detecting(Conversation(Say(0.512, 4.0, "Please tell me what the time is in Rome")), push_to_talk=True)
    await talk.run(3.5)
    assert any(text.startswith("Please tell me") for text in talk.model.read)


async def test_pushed_sound_that_is_cleared_was_never_said() -> None:
    talk = detecting(Conversation(ASKED, Say(3.0, 4.0, "In Rome?")), push_to_talk=True)
    talk.at(2.5, talk.session.clear_sound)
    talk.at(4.5, talk.session.commit_sound)
    log = await talk.run(6)
    assert log.transcripts == ["In Rome?"]


async def test_pushed_silence_has_no_words() -> None:
    talk = detecting(Conversation(Say(9.0, 10.0, "Later")), push_to_talk=True)
    talk.at(2.0, talk.session.commit_sound)
    assert (await talk.run(4)).transcripts == [""]


async def test_a_recogniser_that_fails_fails_the_pushed_turn_and_the_next_one_works() -> None:
    talk = detecting(Conversation(ASKED, Say(3.0, 4.0, "In Rome?")), push_to_talk=True)

    async def commit_and_fail() -> None:
        talk.recogniser.failures = 1
        await talk.session.commit_sound()

    talk.at(2.5, commit_and_fail)
    talk.at(4.5, talk.session.commit_sound)
    log = await talk.run(6)
    assert "scripted failure" in log.all(TurnFailed)[0].error
    assert log.transcripts == ["In Rome?"]


async def test_a_reply_that_waits_for_the_words_can_be_cancelled() -> None:
    talk = detecting(Conversation(ASKED), push_to_talk=True)
    talk.at(1.6, talk.session.commit_sound)
    talk.at(1.6, lambda: talk.session.respond(ReplyRequest("mine")))
    talk.at(1.61, lambda: talk.session.cancel("mine"))
    log = await talk.run(6)
    assert [status for status, _ in log.replies] == ["cancelled"]
    assert log.transcripts == ["What is the time?"]


async def test_a_client_that_commits_ends_the_turn_at_once() -> None:
    talk = Conversation(Say(0.512, 3.0, "What is the time in Rome and in Paris"))
    talk.at(2.0, talk.session.commit_sound)
    log = await talk.run(5)
    assert log.first_at(UserStopped) < 2.5
    assert not log.replies


async def test_without_replies_the_words_wait_for_the_client() -> None:
    talk = detecting(Conversation(ASKED), replies=False)
    talk.at(4.0, lambda: talk.session.respond(ReplyRequest("mine")))
    log = await talk.run(7)
    assert log.first_at(ReplyStarted) == 4.0
    assert talk.model.prompts[-1].messages[-1].text == "What is the time?"


async def test_a_reply_that_must_be_heard_out_is_not_interrupted() -> None:
    talk = Conversation(ASKED, Say(2.2, 3.2, "And in Rome?"), reply="one two three four five six")
    log = await detecting(talk, interrupts=False).run(10)
    assert [status for status, _ in log.replies] == ["completed", "completed"]
    assert log.first_at(UserStarted) < log.first_at(ReplyEnded)
    assert log.transcripts == ["What is the time?", "And in Rome?"]


async def test_a_second_reply_is_refused_while_one_has_the_floor() -> None:
    talk = Conversation(ASKED, reply="one " * 20)
    talk.at(3.0, lambda: talk.session.respond(ReplyRequest("late")))
    log = await talk.run(10)
    assert log.all(ReplyRefused) == [ReplyRefused("late")]
    assert [status for status, _ in log.replies] == ["completed"]


async def test_a_reply_aside_is_made_beside_the_other_and_leaves_no_trace() -> None:
    talk = Conversation(ASKED, reply="one two three four five six")
    aside = ReplyRequest("aside", spoken=False, in_conversation=False, messages=(Message("user", "Sum up."),))
    talk.at(2.5, lambda: talk.session.respond(aside))
    log = await talk.run(8)
    assert [status for status, _ in log.replies] == ["completed", "completed"]
    assert [message.text for message in talk.model.prompts[-1].messages][1:] == ["Sum up."]
    assert [role for role, _ in talk.history] == ["user", "assistant"]


async def test_instructions_and_tools_of_one_reply_are_only_its_own() -> None:
    talk = Conversation(reply="Ten")
    talk.at(0.1, lambda: talk.session.respond(ReplyRequest(spoken=False, instructions="Shout.", tools=(CLOCK,))))
    talk.at(2, lambda: talk.session.respond(ReplyRequest(spoken=False)))
    await talk.run(3)
    first, second = talk.model.prompts
    assert (first.messages[0].text, first.tools) == ("Shout.", (CLOCK,))
    assert (second.messages[0].text, second.tools) == (talk.session.history.instructions, ())


async def test_a_limit_that_was_asked_for_makes_the_reply_incomplete() -> None:
    talk = Conversation(reply="one two three four five")
    talk.at(0.1, lambda: talk.session.respond(ReplyRequest(spoken=False, max_tokens=2)))
    log = await talk.run(3)
    assert log.replies == [("incomplete", "one two ")]


async def test_a_reply_that_was_heard_less_of_is_remembered_shorter() -> None:
    talk = Conversation(ASKED, reply="one two three four five six")
    log = await talk.run(6)
    assert talk.session.truncate(1, 700) == "one two"
    assert talk.history[-1] == ("assistant", "one two…")
    assert talk.session.truncate(99, 700) is None
    assert [status for status, _ in log.replies] == ["completed"]


async def test_a_reply_that_is_truncated_while_it_is_cut_is_remembered_as_short() -> None:
    talk = Conversation(ASKED, reply="one " * 20)

    async def interrupt() -> None:
        talk.session.truncate(1, 400)
        await talk.session.cancel()

    talk.at(4.0, interrupt)
    log = await talk.run(6)
    assert log.replies == [("cancelled", "one")]


async def test_nobody_speaking_is_told_and_answered() -> None:
    talk = detecting(Conversation(ASKED), idle_timeout_ms=5000)
    log = await talk.run(10)
    over = log.first_at(ReplyEnded)
    assert log.first_at(NobodySpoke) == pytest.approx(over + 5, abs=0.1)
    assert talk.model.prompts[-1].messages[-1].text.startswith("(I have said nothing")
    assert [role for role, _ in talk.history] == ["user", "assistant", "assistant"]


async def test_a_call_is_told_once_and_remembered_before_its_output() -> None:
    talk = detecting(Conversation(ASKED), ReplyRequest(tools=(CLOCK,)))
    talk.model.ends_with = CALL
    log = await talk.run(5)
    assert log.all(ReplyCalled) == [ReplyCalled(1, CALL)]
    assert [message.calls for message in talk.session.history.messages] == [(), (), (CALL,)]
    assert log.all(ReplyAudio)


async def test_a_call_of_a_dropped_draft_reaches_nobody() -> None:
    """A pause in mid-sentence drafts a reply that calls; the sentence goes on, and the draft is dropped."""
    talk = Conversation(Say(0.512, 1.536, "What is the time"), Say(2.048, 2.56, "in Rome?"), done=0.2)
    talk.model.ends_with = CALL
    log = await detecting(talk, ReplyRequest(tools=(CLOCK,))).run(6)
    assert len(talk.model.prompts) > 1
    assert len(log.all(ReplyCalled)) == 1


async def test_what_the_model_read_is_told_with_the_replys_end() -> None:
    talk = Conversation(ASKED)
    talk.model.tells = PromptRead(40, 30)
    log = await talk.run(4)
    assert log.all(ReplyEnded)[0].read == PromptRead(40, 30)
