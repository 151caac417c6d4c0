"""A whole session on virtual time: what the user would hear, and exactly when."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.events import (
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    TurnFailed,
    TurnReopened,
    UserStarted,
    UserStopped,
)
from pipeline.requests import ReplyRequest
from pipeline.timing import EndedBy, Mark
from tests.pipeline.conversation import Conversation, Costs, Say

pytestmark = pytest.mark.looptime(start=0)

ASKED = Say(0.512, 1.536, "What is the time?")


async def test_a_question_is_heard_and_answered() -> None:
    talk = Conversation(ASKED, reply="It is ten")
    log = await talk.run(4)
    assert log.transcripts == ["What is the time?"]
    assert log.replies == [("completed", "It is ten ")]
    assert talk.history == [("user", "What is the time?"), ("assistant", "It is ten ")]


async def test_the_answer_leaves_in_the_frame_that_ends_the_turn() -> None:
    """The pause costs 64 ms, the transcript 80, a token 15, a word 20: done before the wait of 192 ms is over."""
    log = await Conversation(ASKED).run(4)
    assert log.first_at(ReplyAudio) == pytest.approx(1.536 + 0.192, abs=0.021)


async def test_the_way_to_the_voice_is_opened_when_the_user_begins_to_speak() -> None:
    talk = Conversation(ASKED)
    log = await talk.run(4)
    assert talk.speech.expected_at == [log.first_at(UserStarted)]


async def test_a_slow_model_delays_the_answer_by_its_own_time_only() -> None:
    """The last update begins with the first silent frame; then the stages run one after the other."""
    log = await Conversation(ASKED, costs=Costs(recognition=0.2, token=0.3, phrase=0.1)).run(4)
    assert log.first_at(ReplyAudio) == pytest.approx(1.536 + 0.032 + 0.2 + 0.3 + 0.1, abs=0.021)


async def test_the_parts_of_the_record_add_up_to_the_whole() -> None:
    record = (await Conversation(ASKED).run(4)).records[0]
    whole = (record.marks[Mark.FIRST_AUDIO_SENT] - record.speech_end_at) * 1000
    assert sum(ms for _, ms in record.parts()) == pytest.approx(whole)
    assert set(record.marks) == set(Mark)


async def test_drafts_change_when_a_reply_comes_but_not_what_it_is() -> None:
    with_drafts = await Conversation(ASKED).run(4)
    without = await Conversation(ASKED, turn__drafts=False).run(4)
    assert with_drafts.replies == without.replies
    assert with_drafts.first_at(ReplyAudio) < without.first_at(ReplyAudio)
    assert [record.adopted for record in with_drafts.records + without.records] == [True, False]


async def test_a_pause_in_mid_sentence_makes_one_turn_of_the_whole_sentence() -> None:
    log = await Conversation(Say(0.512, 1.024, "Give me"), Say(1.536, 2.048, "the time"), done=0.1).run(6)
    assert log.transcripts == ["Give me the time"]
    assert log.records[0].reopens == 1
    assert len(log.all(ReplyStarted)) == 1


async def test_a_dropped_draft_reaches_nobody() -> None:
    talk = Conversation(Say(0.512, 1.536, "What is the time"), Say(2.048, 2.56, "in Rome?"), done=0.2)
    log = await talk.run(6)
    assert [prompt.messages[-1].text for prompt in talk.model.prompts][-1] == "What is the time in Rome?"
    assert log.replies == [("completed", "It is ten ")]
    record = log.records[0]
    assert 0 < record.wasted_tokens < record.drafted_tokens


async def test_a_syllable_in_the_last_moment_keeps_the_first_audio_back() -> None:
    """Speech goes on 160 ms after the pause began: the turn is decided before the listener can be sure of it."""
    log = await Conversation(Say(0.512, 1.536, "What is the time"), Say(1.696, 2.208, "in Rome?")).run(5)
    assert log.all(TurnReopened)
    assert log.first_at(ReplyAudio) > 2.208


async def test_speech_after_the_commit_takes_the_turn_back_while_nothing_was_heard() -> None:
    talk = Conversation(ASKED, Say(3.1, 3.6, "In Rome"), costs=Costs(token=3.0), turn__longest_wait_ms=900)
    log = await talk.run(30)
    assert log.all(TurnReopened)
    assert log.transcripts[-1] == "What is the time? In Rome"
    assert talk.history[0] == ("user", "What is the time? In Rome")


async def test_words_over_a_reply_cut_it_and_only_what_was_heard_is_remembered() -> None:
    """The reply sounds from 1.78 s to 3.4 s, a word lasts 0.3 s: five words were heard to their end."""
    talk = Conversation(
        ASKED, Say(3.2, 4.2, "What about the day?"), reply="one two three four five six seven eight"
    )
    log = await talk.run(12)
    status, heard = log.replies[0]
    assert (status, heard) == ("cancelled", "one two three four five")
    assert talk.history[1] == ("assistant", "one two three four five…")
    assert log.replies[1][0] == "completed"


async def test_nothing_of_a_cut_reply_follows_the_new_turn() -> None:
    log = await Conversation(ASKED, Say(3.2, 4.2, "What about the day?"), reply="one " * 20).run(12)
    kinds = [type(event) for _, event in log.entries]
    cut = kinds.index(UserStarted, kinds.index(ReplyAudio))
    ended = kinds.index(ReplyEnded)
    assert cut < ended
    assert not any(isinstance(event, ReplyAudio) and event.turn == 1 for _, event in log.entries[cut:])


async def test_playback_falls_silent_within_a_fifth_of_a_second_of_the_second_speech_frame() -> None:
    """Sent ahead are at most 120 ms; the third frame of speech pauses; the fade takes 20 ms."""
    log = await Conversation(ASKED, Say(3.2, 4.2, "What about the day?"), reply="one " * 20).run(12)
    sent = [
        (at, len(one.pcm) / 48_000) for at, one in log.entries if isinstance(one, ReplyAudio) and one.turn == 1
    ]
    began = sent[0][0]
    silent_from = max(at for at, _ in sent) + 0.12
    assert silent_from <= max(began, 3.2 + 0.064) + 0.2


async def test_a_backchannel_costs_a_breath_and_not_a_sample() -> None:
    undisturbed = await Conversation(ASKED, reply="one two three four five six").run(10)
    log = await Conversation(ASKED, Say(3.008, 3.328, "uh-huh"), reply="one two three four five six").run(10)
    assert log.replies == undisturbed.replies
    faded_again_ms = 20
    assert log.audio_ms(1) == undisturbed.audio_ms(1) + faded_again_ms
    assert len(log.all(UserStarted)) == 1


async def test_a_cough_over_a_reply_is_forgotten() -> None:
    log = await Conversation(ASKED, Say(3.008, 3.328), reply="one two three four five six").run(10)
    assert [status for status, _ in log.replies] == ["completed"]


async def test_a_cough_before_the_first_audio_does_not_lose_the_answer() -> None:
    log = await Conversation(ASKED, Say(1.728, 1.856), costs=Costs(token=0.2)).run(8)
    assert [status for status, _ in log.replies] == ["completed"]
    assert log.transcripts == ["What is the time?"]


async def test_stop_is_obeyed_and_not_answered() -> None:
    log = await Conversation(ASKED, Say(3.2, 3.6, "Stop"), reply="one " * 20).run(10)
    assert [status for status, _ in log.replies] == ["cancelled"]
    assert log.records[-1].status == "no_reply"


async def test_a_noise_without_words_gets_no_reply() -> None:
    log = await Conversation(Say(0.512, 1.2)).run(6)
    assert log.transcripts == [""]
    assert not log.all(ReplyStarted)


async def test_a_microphone_muted_in_mid_word_ends_the_turn() -> None:
    log = await Conversation(Say(0.512, 9.0, "What is the time? " + "x " * 20)).run(8, muted_from=2.5)
    assert log.all(UserStopped)
    assert log.records[0].ended_by in (EndedBy.NO_AUDIO, EndedBy.LONGEST_WAIT)


async def test_endless_talk_is_ended_by_the_longest_turn() -> None:
    log = await Conversation(Say(0.512, 19.0, "blah " * 60), turn__longest_turn_ms=5000).run(10)
    assert log.records[0].ended_by is EndedBy.LONGEST_TURN


async def test_a_model_that_fails_fails_the_turn_and_the_next_one_works() -> None:
    talk = Conversation(ASKED, Say(4.0, 5.0, "And now what?"))
    talk.model.fails = True
    asyncio.get_running_loop().call_later(3.0, setattr, talk.model, "fails", False)
    log = await talk.run(8)
    assert [status for status, _ in log.replies] == ["failed", "completed"]
    assert "scripted failure" in log.all(ReplyEnded)[0].error


async def test_a_voice_that_fails_fails_the_turn_and_the_next_one_works() -> None:
    talk = Conversation(ASKED, Say(4.0, 5.0, "And now what?"))
    talk.speech.fails = True
    asyncio.get_running_loop().call_later(3.0, setattr, talk.speech, "fails", False)
    log = await talk.run(8)
    assert [status for status, _ in log.replies] == ["failed", "completed"]


async def test_a_recogniser_that_fails_fails_the_turn_and_the_next_one_works() -> None:
    talk = Conversation(ASKED, Say(4.0, 5.0, "And now what?"))
    talk.recogniser.failures = 10
    asyncio.get_running_loop().call_later(3.0, setattr, talk.recogniser, "failures", 0)
    log = await talk.run(8)
    assert "scripted failure" in log.all(TurnFailed)[0].error
    assert [status for status, _ in log.replies] == ["completed"]


async def test_typed_words_are_answered_in_writing() -> None:
    talk = Conversation(reply="Ten")
    talk.session.history.add_user("What is the time?")
    await talk.session.respond(ReplyRequest(spoken=False))
    log = await talk.run(3)
    assert log.replies == [("completed", "Ten ")]
    assert not log.all(ReplyAudio)


async def test_the_client_can_cancel_a_reply() -> None:
    talk = Conversation(ASKED, reply="one " * 20)

    talk.at(3, talk.session.cancel)
    log = await talk.run(6)
    assert [status for status, _ in log.replies] == ["cancelled"]


async def test_words_are_read_while_the_user_is_still_speaking() -> None:
    talk = Conversation(Say(0.512, 4.0, "Please tell me what the time is in the city of Rome today"))
    await talk.run(3.5)
    assert any(text.startswith("Please tell me") for text in talk.model.read)


async def test_closing_leaves_no_context_open_and_no_task_behind() -> None:
    talk = Conversation(ASKED, reply="one " * 50)
    await talk.run(3)
    assert not talk.speech.open_contexts
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_half_a_minute_of_talk_keeps_every_turn_apart() -> None:
    script = [Say(0.5 + 5 * turn, 1.5 + 5 * turn, f"What is number {turn}?") for turn in range(6)]
    log = await Conversation(*script).run(31)
    assert log.transcripts == [f"What is number {turn}?" for turn in range(6)]
    assert [record.turn for record in log.records] == [1, 2, 3, 4, 5, 6]


async def test_the_instructions_are_read_before_the_first_word() -> None:
    talk = Conversation(Say(2.0, 3.0, "Hello there"))
    await talk.run(1)
    assert talk.model.read == [""]


async def test_words_are_read_as_soon_as_they_are_heard_though_they_may_change() -> None:
    talk = Conversation(ASKED)
    await talk.run(1.0)
    assert talk.model.read[1] == "What"
