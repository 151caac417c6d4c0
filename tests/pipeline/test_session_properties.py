"""Whatever the user does, a session keeps its promises; each example is half a minute of virtual time."""

from __future__ import annotations

import asyncio

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import (
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    TurnReopened,
    UserStarted,
    UserTranscript,
)
from tests.pipeline.conversation import Conversation, Costs, Log, Say

WORDS = st.sampled_from(["", "yeah", "stop", "What is the time?", "I went to the", "Tell me more", "4 1 5 5"])
LENGTHS = st.sampled_from([0.096, 0.32, 0.64, 1.28])
PAUSES = st.sampled_from([0.128, 0.224, 0.32, 0.64, 1.6])
SPEECH = st.lists(st.tuples(PAUSES, LENGTHS, WORDS), min_size=1, max_size=8)
COSTS = st.sampled_from([Costs(), Costs(recognition=0.4), Costs(token=0.2), Costs(phrase=0.5, judgement=0.3)])


def talk(speech: list[tuple[float, float, str]], costs: Costs) -> tuple[Conversation, Log]:
    script, at = [], 0.512
    for pause, length, text in speech:
        script.append(Say(at + pause, at + pause + length, text))
        at += pause + length

    async def run() -> tuple[Conversation, Log]:
        conversation = Conversation(*script, reply="one two three four", costs=costs)
        return conversation, await conversation.run(at + 8)

    loop = looptime.new_event_loop(start=0)
    try:
        return loop.run_until_complete(run())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        asyncio.set_event_loop(None)


@given(SPEECH, COSTS)
@settings(max_examples=12, deadline=None)
def test_nothing_of_a_reply_leaves_before_its_turn_is_over(
    speech: list[tuple[float, float, str]], costs: Costs
) -> None:
    over: set[int] = set()
    for _, event in talk(speech, costs)[1].entries:
        match event:
            case UserTranscript(turn):
                over.add(turn)
            case TurnReopened(turn):
                over.discard(turn)
            case ReplyStarted(turn) | ReplyText(turn) | ReplyAudio(turn):
                assert turn in over


@given(SPEECH, COSTS)
@settings(max_examples=12, deadline=None)
def test_every_turn_and_every_reply_that_began_ends(speech: list[tuple[float, float, str]], costs: Costs) -> None:
    _, log = talk(speech, costs)
    assert {event.turn for event in log.all(UserStarted)} <= {record.turn for record in log.records}
    assert len(log.all(ReplyStarted)) == len(log.all(ReplyEnded))


@given(SPEECH, COSTS)
@settings(max_examples=12, deadline=None)
def test_no_sound_of_a_reply_follows_its_end(speech: list[tuple[float, float, str]], costs: Costs) -> None:
    running: set[int] = set()
    for _, event in talk(speech, costs)[1].entries:
        match event:
            case ReplyStarted(turn):
                running.add(turn)
            case ReplyEnded(turn):
                running.discard(turn)
            case ReplyAudio(turn):
                assert turn in running


@given(SPEECH, COSTS)
@settings(max_examples=12, deadline=None)
def test_the_history_holds_only_what_was_said_and_heard(
    speech: list[tuple[float, float, str]], costs: Costs
) -> None:
    conversation, log = talk(speech, costs)
    replies = [text for role, text in conversation.history if role == "assistant"]
    heard = [ended.heard.strip() for ended in log.all(ReplyEnded) if ended.heard.strip()]
    assert [reply.strip(" …") for reply in replies] == heard
