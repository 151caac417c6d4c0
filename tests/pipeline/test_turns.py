"""The TurnKeeper: when a turn ends, what reopens it, what interrupts a reply."""

from __future__ import annotations

from pipeline.actions import (
    BeginTurn,
    Commit,
    Cut,
    Draft,
    DropDraft,
    EndTurn,
    FailTurn,
    FinishHearing,
    ForgetHeard,
    ForgetTurn,
    Hear,
    Judge,
    PausePlayback,
    Reopen,
    ResumePlayback,
)
from pipeline.floor import Floor
from pipeline.timing import EndedBy
from pipeline.utterance import spoken_form
from tests.pipeline.talk import Talk

ASKED = "What is the time?"


def test_a_pause_starts_the_final_pass_at_once() -> None:
    talk = Talk().speech(1000).silence(96)
    assert talk.names() == ["BeginTurn", "Hear", "FinishHearing"]


def test_the_sound_is_judged_at_the_pause_beside_the_final_pass() -> None:
    talk = Talk().speech(1000).silence(128)
    assert len(talk.all(Judge)) == 1
    assert not talk.all(Draft)


def test_the_transcript_starts_a_draft_while_the_turn_is_open() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED)
    assert talk.last(Draft).text == ASKED
    assert not talk.all(Commit)


def test_an_update_that_heard_all_the_speech_starts_the_draft() -> None:
    talk = Talk().speech(1000).partial(ASKED).silence(96)
    assert talk.last(Draft).text == ASKED
    talk.final("what is the time?")
    assert len(talk.all(Draft)) == 1


def test_an_update_that_missed_the_last_word_starts_no_draft() -> None:
    talk = Talk().speech(800).partial("What is the").speech(200).silence(96)
    assert not talk.all(Draft)


def test_a_final_transcript_with_other_words_replaces_the_draft() -> None:
    talk = Talk().speech(1000).partial("What is the dime?").silence(96).final(ASKED)
    assert talk.last(DropDraft) == DropDraft(1, 1)
    assert talk.last(Draft) == Draft(1, 2, ASKED)


def test_an_early_draft_is_committed_only_with_the_final_transcript() -> None:
    talk = Talk().speech(1000).partial(ASKED).silence(96).judged(0.97).audio_made().goes_on(600)
    assert not talk.all(Commit)
    assert talk.final(ASKED).all(Commit)


def test_a_clear_question_is_committed_after_a_fifth_of_a_second() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED).judged(0.97).audio_made()
    silent_before = talk.ms
    while not talk.all(Commit):
        talk.goes_on(32)
    assert 96 + talk.ms - silent_before <= 224
    assert talk.last(Commit).ended_by is EndedBy.EVIDENCE


def test_doubt_in_the_sound_makes_the_wait_longer() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED).judged(0.1).audio_made().goes_on(700)
    assert not talk.all(Commit)


def test_a_conjunction_at_the_end_is_not_the_end() -> None:
    talk = Talk().speech(1000).silence(96).final("Tell me the time and").judged(0.9).audio_made()
    assert not talk.goes_on(600).all(Commit)


def test_digits_being_dictated_wait_longest() -> None:
    talk = Talk().speech(1000).silence(96).final("My number is 4 1 5 5").judged(0.97).audio_made()
    assert not talk.goes_on(1400).all(Commit)
    assert talk.goes_on(400).all(Commit)


def test_the_longest_wait_always_fires_and_says_so() -> None:
    talk = Talk().speech(1000).silence(96).final("I want a").judged(0.01).audio_made().goes_on(1500)
    assert talk.last(Commit).ended_by is EndedBy.LONGEST_WAIT


def test_the_longest_turn_ends_even_when_speech_never_does() -> None:
    talk = Talk(longest_turn_ms=5000).speech(5100)
    talk.speech_end = talk.last(FinishHearing).until
    talk.final("Music and more music").audio_made()
    assert talk.last(Commit).ended_by is EndedBy.LONGEST_TURN


def test_speech_before_the_commit_reopens_the_same_turn() -> None:
    talk = Talk().speech(1000).silence(150).final("Give me").speech(500)
    assert talk.last(Reopen) == Reopen(1, committed=False)
    assert talk.all(DropDraft)
    assert len(talk.all(BeginTurn)) == 1


def test_speech_after_the_commit_reopens_while_nothing_was_heard() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED).judged(0.97).audio_made().goes_on(300)
    assert talk.speech(200).last(Reopen) == Reopen(1, committed=True)
    assert talk.keeper.floor is Floor.FREE


def test_a_reopened_turn_is_committed_with_all_its_words() -> None:
    talk = Talk().speech(1000).silence(150).final("Give me").speech(500).silence(96)
    talk.final("Give me the time").judged(0.97).audio_made().goes_on(300)
    assert [commit.text for commit in talk.all(Commit)] == ["Give me the time"]


def test_the_sound_is_judged_again_as_the_goes_on() -> None:
    talk = Talk().speech(1000).silence(300).judged(0.2).goes_on(300)
    assert len(talk.all(Judge)) == 2


def test_a_later_verdict_does_not_outvote_the_first() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED).judged(0.6).judged(0.98).audio_made()
    assert not talk.goes_on(160).all(Commit)


def test_a_sure_verdict_needs_no_second_one() -> None:
    talk = Talk().speech(1000).silence(300).judged(0.97).goes_on(1200)
    assert len(talk.all(Judge)) == 1


def test_a_verdict_on_an_earlier_pause_is_stale() -> None:
    talk = Talk().speech(1000).silence(96)
    earlier = talk.speech_end
    talk.speech(500).silence(96).final(ASKED)
    talk.keeper.on_judgement(0.99, earlier, talk.ms / 1000)
    assert not talk.goes_on(200).all(Commit)


def test_the_same_words_with_a_full_stop_keep_the_draft() -> None:
    talk = Talk().speech(1000).silence(96).final("Give me the time").speech(100).silence(96)
    drafts = len(talk.all(Draft))
    talk.final("Give me the time.").final("give me the time")
    assert len(talk.all(Draft)) == drafts + 1


def test_the_commit_waits_for_the_first_audio_but_not_for_ever() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED).judged(0.97).goes_on(600)
    assert not talk.all(Commit)
    assert talk.goes_on(1000).all(Commit)


def test_without_drafts_the_reply_begins_at_the_end_of_the_turn() -> None:
    talk = Talk(drafts=False).speech(1000).silence(96).final(ASKED).judged(0.97)
    assert not talk.all(Draft)
    assert talk.goes_on(200).audio_made().all(Commit)


def test_a_turn_makes_no_more_drafts_than_its_budget() -> None:
    talk = Talk(max_drafts=2)
    for number in range(5):
        talk.speech(300).silence(96).final(f"Give me number {number} or")
    assert len(talk.all(Draft)) == 2


def test_no_words_end_the_turn_quietly() -> None:
    talk = Talk().speech(200).silence(96).final("").judged(0.9).goes_on(1500)
    assert talk.all(EndTurn)
    assert not talk.all(Commit) + talk.all(Draft)
    assert talk.keeper.phase is None


def test_a_transcript_that_never_comes_fails_the_turn() -> None:
    talk = Talk().speech(1000).silence(96).goes_on(5000)
    assert talk.last(FailTurn).turn == 1


def test_sound_that_stops_coming_counts_as_silence() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED).judged(0.97).audio_made().pass_without_sound(1000)
    assert talk.last(Commit).ended_by is EndedBy.NO_AUDIO


def test_sustained_speech_over_a_reply_pauses_it() -> None:
    talk = Talk().question().speech(32)
    assert not talk.all(PausePlayback)
    assert talk.goes_on(32).all(PausePlayback) == [PausePlayback(1)]


def test_a_backchannel_lets_the_reply_go_on() -> None:
    talk = Talk().question().speech(300).partial("uh-huh").silence(96).final("Uh-huh.")
    assert talk.last(ResumePlayback) == ResumePlayback(1)
    assert not talk.all(Cut)


def test_a_cough_lets_the_reply_go_on() -> None:
    talk = Talk().question().speech(300).silence(96).final("")
    assert talk.all(ResumePlayback)
    assert talk.keeper.phase is None


def test_a_blip_over_a_reply_is_nothing() -> None:
    talk = Talk(barge_in_ms=96).question().speech(64).silence(96)
    assert not talk.all(PausePlayback)
    assert talk.keeper.phase is None


def test_words_over_a_reply_take_the_floor() -> None:
    talk = Talk().question().speech(500).partial("What about")
    assert [type(one) for one in talk.actions[-2:]] == [BeginTurn, Cut]
    assert talk.keeper.floor is Floor.FREE


def test_stop_cuts_at_once_and_wants_no_answer() -> None:
    talk = Talk().question().speech(128).partial("Stop")
    assert talk.all(Cut) == [Cut(1)]
    talk.silence(96).final("Stop.").judged(0.9).goes_on(1500)
    assert talk.last(EndTurn).text == "Stop."
    assert len(talk.all(Commit)) == 1


def test_long_speech_interrupts_although_no_word_came_in_time() -> None:
    talk = Talk().question().speech(800)
    assert talk.all(Cut)


def test_long_sound_without_words_does_not_interrupt() -> None:
    talk = Talk().question().speech(500).partial("").goes_on(1000)
    assert not talk.all(ResumePlayback)
    assert talk.goes_on(200).all(ResumePlayback)
    assert not talk.all(Cut)


def test_an_interruption_is_answered_like_any_turn() -> None:
    talk = Talk().question().speech(600).partial("What about tomorrow").silence(96)
    talk.final("What about tomorrow?").judged(0.97).audio_made().goes_on(300)
    assert talk.last(Commit).turn == 2


def test_words_begun_over_a_reply_that_ends_become_a_turn() -> None:
    talk = Talk().question().speech(64).reply_over(1)
    assert talk.last(BeginTurn).turn == 2


def test_its_own_words_over_a_reply_are_no_interruption() -> None:
    talk = Talk().question().says("It is a quarter past nine").speech(600).partial("is a quarter past")
    assert not talk.all(Cut)
    talk.silence(96).final("is a quarter past nine")
    assert talk.last(ResumePlayback) == ResumePlayback(1)
    assert talk.keeper.phase is None


def test_long_speech_of_its_own_words_lets_the_reply_go_on() -> None:
    talk = Talk().question().says("It is a quarter past nine").speech(600).partial("a quarter past").goes_on(700)
    assert talk.all(ResumePlayback)
    assert not talk.all(Cut)


def test_words_on_top_of_its_own_take_the_floor() -> None:
    talk = Talk().question().says("It is a quarter past nine").speech(900).partial("a quarter past what about you")
    assert talk.all(Cut)


def test_its_own_words_in_front_of_an_interruption_are_left_out_of_it() -> None:
    talk = Talk().question().says("It is a quarter past").speech(600).says("It is a quarter past nine")
    talk.partial("quarter past nine and in Rome").silence(96).final("quarter past nine and in Rome?")
    assert talk.last(Draft).text == "And in Rome?"


REPORT = "The sun has just come out over the harbour and the wind is calm."


def test_words_that_the_reply_said_long_before_are_the_users_own() -> None:
    talk = Talk().question().says(f"It is a quarter past nine. {REPORT}").speech(600)
    talk.partial("a quarter past nine you said").silence(96).final("A quarter past nine, you said?")
    assert talk.last(Draft).text == "A quarter past nine, you said?"


def test_its_own_last_words_are_not_answered() -> None:
    talk = Talk().question().says("It is a quarter past nine").speech(64).reply_over(1)
    talk.goes_on(400).silence(96).final("quarter past nine").judged(0.9).goes_on(1500)
    assert talk.last(EndTurn).turn == 2
    assert len(talk.all(Commit)) == 1


def test_what_was_heard_over_a_reply_begins_at_its_first_syllable() -> None:
    talk = Talk().question()
    began = int(talk.ms) * 16
    talk.speech(600).partial("What about")
    assert talk.last(Hear).start == talk.last(BeginTurn).start == began


def test_the_client_can_cut_before_the_first_audio() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED).judged(0.97).audio_made().goes_on(300)
    assert talk.keeper.client_cancel() == [Cut(1)]
    assert talk.keeper.client_cancel() == []


def test_a_typed_turn_waits_until_the_floor_is_free() -> None:
    talk = Talk().question()
    assert talk.keeper.client_turn() == (0, [])
    talk.reply_over(1)
    assert talk.keeper.client_turn() == (2, [])


def test_what_the_user_says_meanwhile_is_answered_after_the_reply_the_client_asked_for() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED)
    turn, dropped = talk.keeper.client_turn()
    assert dropped == [DropDraft(1, 1)]
    talk.judged(0.97).goes_on(2000)
    assert not talk.all(Commit)
    talk.reply_over(turn).audio_made().goes_on(300)
    assert [commit.turn for commit in talk.all(Commit)] == [1]


def test_without_replies_a_turn_ends_with_its_words_kept() -> None:
    talk = Talk(replies=False).speech(1000).silence(96).final(ASKED).judged(0.97).goes_on(300)
    assert talk.last(EndTurn) == EndTurn(1, EndedBy.EVIDENCE, ASKED, kept=True)
    assert not talk.all(Draft)


def test_without_interruptions_speech_over_a_reply_is_a_turn_beside_it() -> None:
    talk = Talk(interrupts=False).question().speech(800).partial("What about Rome").goes_on(64)
    assert talk.last(BeginTurn).turn == 2
    assert not talk.all(PausePlayback) + talk.all(Cut)
    talk.silence(96).final("What about Rome?").judged(0.97).goes_on(2000)
    assert len(talk.all(Commit)) == 1
    talk.reply_over(1).audio_made().goes_on(300)
    assert [commit.turn for commit in talk.all(Commit)] == [1, 2]


def test_a_fixed_silence_ends_a_turn_whatever_the_evidence() -> None:
    talk = Talk(fixed_wait_ms=640).speech(1000).silence(96).final(ASKED).judged(0.97).audio_made().goes_on(500)
    assert not talk.all(Commit)
    assert talk.goes_on(100).all(Commit)


def test_a_client_that_commits_ends_the_turn_and_gets_no_reply() -> None:
    talk = Talk().speech(1000)
    talk.actions += talk.keeper.client_commit(talk.ms / 1000)
    talk.final(ASKED)
    assert talk.last(EndTurn) == EndTurn(1, EndedBy.CLIENT, ASKED, kept=True)
    assert not talk.all(Commit)


def test_a_client_that_clears_leaves_nothing_of_the_turn() -> None:
    talk = Talk().speech(1000).silence(96).final(ASKED)
    assert talk.keeper.client_clear() == [DropDraft(1, 1), ForgetTurn(1), ForgetHeard()]
    assert talk.keeper.client_clear() == []


def test_the_text_the_model_is_given_is_stable_against_punctuation() -> None:
    same = {
        spoken_form(text)
        for text in ("give me  the time", "Give me the time.", "Give me the time...", "Give me the time,")
    }
    assert same == {"Give me the time"}
    assert spoken_form("is it late?") == "Is it late?"
