"""Lulls: known by the clock, and told to whoever brings the sound while nothing is going on."""

from __future__ import annotations

import pytest

from pipeline.events import ReplyEnded, UserStarted
from pipeline.lull import LULL_S, Lull
from pipeline.requests import ReplyRequest, TurnDetection
from pipeline.timing import loop_clock
from tests.pipeline.conversation import Conversation, Say

pytestmark = pytest.mark.looptime(start=0)

ASKED = Say(5.12, 6.144, "What is the time?")


def told_in(talk: Conversation) -> list[float]:
    """The times at which the session says that it is in a lull, filled as it goes on."""
    times: list[float] = []
    talk.session.on_lull = lambda: times.append(loop_clock())
    return times


def test_a_lull_begins_when_nothing_has_gone_on_for_a_while_and_ends_at_once() -> None:
    now = 10.0
    lull = Lull(lambda: now)
    assert not lull.note(busy=False)
    now += LULL_S
    assert lull.note(busy=False)
    assert not lull.note(busy=True)
    now += LULL_S / 2
    assert not lull.note(busy=False)


async def test_from_the_first_sign_of_speech_to_the_end_of_the_reply_nothing_is_a_lull() -> None:
    talk = Conversation(ASKED)
    lulls = told_in(talk)
    log = await talk.run(14)
    speech_s, reply_over_s = log.first_at(UserStarted), log.first_at(ReplyEnded)
    before = [at for at in lulls if at < reply_over_s]
    assert min(before) == pytest.approx(LULL_S, abs=0.05)
    assert max(before) < speech_s - 0.03  # the first of the two frames that speech begins with counts already
    assert min(at for at in lulls if at > reply_over_s) == pytest.approx(reply_over_s + LULL_S, abs=0.3)


async def test_with_push_to_talk_there_is_none_because_the_user_may_be_done_at_any_moment() -> None:
    talk = Conversation()
    talk.at(0.1, lambda: talk.session.configure(TurnDetection(push_to_talk=True), ReplyRequest()))
    lulls = told_in(talk)
    await talk.run(5)
    assert lulls == []
