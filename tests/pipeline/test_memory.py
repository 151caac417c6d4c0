"""What a conversation remembers of its turns, in both modes: on virtual time, with states that can be read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clients.traces import found
from codec.window import SegmentState
from pipeline.events import MemoryHeld
from pipeline.requests import ReplyRequest
from tests.pipeline.conversation import Conversation, Say, Segments
from tests.pipeline.remembering import RememberingConversation, RememberingModel

pytestmark = pytest.mark.looptime(start=0)

FIRST = Say(0.512, 1.536, "My sister is Clara")
FOLLOW_UP = Say(4.5, 5.5, "What is her name?")  # the first reply is over at about 3 s
LATE = Say(7.2, 8.2, "What is her name?")


def talk(*script: Say, reply: str = "It is ten", **settings: Any) -> RememberingConversation:
    return RememberingConversation(*script, reply=reply, memory__mode="echoic", **settings)


def model_of(conversation: RememberingConversation) -> RememberingModel:
    assert isinstance(conversation.model, RememberingModel)
    return conversation.model


async def test_in_private_mode_a_follow_up_is_told_what_was_said_by_the_state_alone() -> None:
    conversation = talk(FIRST, FOLLOW_UP)
    await conversation.run(9)
    assert model_of(conversation).asked[-1] == ["What is her name?"]
    assert model_of(conversation).told[-1] == ["My sister is Clara", "It is ten"]


async def test_after_three_seconds_in_which_neither_side_speaks_it_is_told_nothing() -> None:
    conversation = talk(FIRST, LATE)
    await conversation.run(11)
    assert model_of(conversation).told[-1] == []


async def test_a_long_reply_counts_as_being_heard() -> None:
    conversation = talk(FIRST, Say(9.2, 10.2, "What is her name?"), reply="one two three four " * 5)
    await conversation.run(13)
    assert model_of(conversation).told[-1][0] == "My sister is Clara"


async def test_what_is_still_there_as_text_is_not_told_twice() -> None:
    conversation = RememberingConversation(FIRST, FOLLOW_UP)
    await conversation.run(9)
    assert model_of(conversation).told[-1] == []
    assert [text for _, text in conversation.history][:2] == ["My sister is Clara", "It is ten "]


async def test_the_state_speaks_for_what_fell_out_of_the_text() -> None:
    conversation = RememberingConversation(FIRST, FOLLOW_UP, llm__history_tokens=0)
    await conversation.run(9)
    assert model_of(conversation).told[-1] == ["My sister is Clara", "It is ten"]


async def test_of_an_interrupted_reply_what_was_heard_is_remembered() -> None:
    conversation = talk(FIRST, Say(3.2, 4.2, "What about the day?"), reply="one two three four five six " * 3)
    log = await conversation.run(8)
    heard = log.replies[0][1].rstrip("…").strip()
    assert 0 < len(heard) < len(conversation.model.reply.strip())
    assert model_of(conversation).told[-1][-1] == heard


async def test_a_turn_taken_up_again_is_remembered_as_one() -> None:
    conversation = talk(FIRST, Say(1.9, 2.6, "and Ida"), FOLLOW_UP, done=0.2)
    await conversation.run(10)
    assert model_of(conversation).told[-1][0] == "My sister is Clara and Ida"


async def test_a_noise_leaves_the_state_as_it_was() -> None:
    conversation = talk(FIRST, Say(3.5, 4.0), Say(6.0, 7.0, "What is her name?"))
    await conversation.run(10)
    assert model_of(conversation).told[-1] == ["My sister is Clara", "It is ten"]


async def test_each_chunk_updates_the_open_segment() -> None:
    conversation = talk(Say(0.5, 4.5, "My sister is Clara and she lives in Rome"))
    heard: list[int] = []
    memory = conversation.session._memory
    said = memory.said
    memory.said = lambda segments: (heard.append(segments[-1].tokens), said(segments))[1]  # type: ignore[method-assign]
    await conversation.run(4)
    assert heard == sorted(heard)
    assert len(set(heard)) > 3


async def test_nothing_of_a_private_turn_is_left_in_the_session() -> None:
    conversation = talk(FIRST, Say(6.5, 7.0, "Hello"), reply="Give Bertram a call")
    session, model, script = conversation.session, model_of(conversation), conversation.script
    left: list[list[str]] = []
    sound: list[float] = []

    def search() -> None:
        model.told.clear()
        model.asked.clear()
        known = (
            conversation,
            conversation.log,
            script,
            session._stages.activity,
            conversation.recogniser,
            left,
            model.reply,
        )
        left.append(found(session, "Clara", "Bertram", but=known))
        sound.append(float(session._hearing.kept.cut(0, 2 * 16_000).samples.max()))

    for at in (1.9, 5.8):  # in the middle of the turn, and when it is over
        asyncio.get_running_loop().call_later(at, search)
    await conversation.run(7.5)
    assert left[0]
    assert not left[1]
    assert sound[0] > 0
    assert sound[1] == 0


async def test_an_expired_state_is_zero_wherever_it_was_held() -> None:
    conversation = talk(FIRST)
    held: list[SegmentState] = []
    settle = conversation.session._memory.settle

    def watched(turn: int, message: Segments, reply: Segments) -> None:
        settle(turn, message, reply)
        held.extend(conversation.session._replies.prompt(ReplyRequest()).state.segments)  # type: ignore[union-attr]

    conversation.session._memory.settle = watched  # type: ignore[method-assign]
    await conversation.run(8)
    assert held
    assert not any(segment.values.any() for segment in held)


async def test_a_session_that_ends_keeps_no_state() -> None:
    conversation = talk(FIRST)
    await conversation.run(4)
    assert conversation.session._replies.prompt(ReplyRequest()).state is None


async def test_a_sick_state_is_dropped_counted_and_warned_about_once() -> None:
    conversation = talk(FIRST, FOLLOW_UP, Say(8.0, 9.0, "And his?"))
    model_of(conversation).sick = True
    log = await conversation.run(12)
    assert [status for status, _ in log.replies] == ["completed"] * 3
    assert not any(model_of(conversation).told)
    assert [record.states_dropped for record in log.records] == [0, 1, 2]
    assert len(model_of(conversation).warnings) == 1


async def test_what_the_memory_holds_is_told_when_it_changes_and_when_it_begins_to_fade() -> None:
    conversation = talk(FIRST)
    told = (await conversation.run(9)).all(MemoryHeld)
    assert [(len(event.weights), event.fading) for event in told[-3:]] == [(2, False), (2, True), (0, False)]
    assert told[-2].weights == (0.7, 1.0)
    assert 2.7 < told[-2].left_s < 3.0


async def test_a_model_without_a_codec_has_no_memory_to_tell_of() -> None:
    conversation = Conversation(FIRST)
    assert (await conversation.run(4)).all(MemoryHeld) == []
