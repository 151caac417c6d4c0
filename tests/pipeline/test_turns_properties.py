"""The TurnKeeper's laws, for whatever happens in whatever order."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.actions import (
    BeginTurn,
    Commit,
    Cut,
    Draft,
    DropDraft,
    EndTurn,
    FailTurn,
    ForgetHeard,
    ForgetTurn,
    Hear,
    PausePlayback,
    Reopen,
    ResumePlayback,
)
from tests.pipeline.talk import Talk

WORDS = st.sampled_from(
    ["", "yeah", "stop", "What is the time?", "I went to the", "My number is 4 1 5 5", "Hello"]
)
LENGTH_MS = st.sampled_from([32, 64, 96, 200, 400, 800, 1700])
Step = Callable[[Talk], object]


def _audio_made(talk: Talk) -> object:
    return talk.audio_made() if talk.all(Draft) else None


def _heard(talk: Talk) -> object:
    return talk.heard(talk.last(Commit).turn) if talk.all(Commit) else None


def _reply_over(talk: Talk) -> object:
    return talk.reply_over(talk.last(Commit).turn) if talk.all(Commit) else None


def _cancel(talk: Talk) -> object:
    talk.actions += talk.keeper.client_cancel()
    return talk


def _commit(talk: Talk) -> object:
    talk.actions += talk.keeper.client_commit(talk.ms / 1000)
    return talk


def _clear(talk: Talk) -> object:
    talk.actions += talk.keeper.client_clear()
    return talk


STEPS: st.SearchStrategy[Step] = st.one_of(
    LENGTH_MS.map(lambda ms: lambda talk: talk.speech(ms)),
    LENGTH_MS.map(lambda ms: lambda talk: talk.silence(ms)),
    WORDS.map(lambda text: lambda talk: talk.partial(text)),
    WORDS.map(lambda text: lambda talk: talk.final(text)),
    st.floats(0, 1).map(lambda p: lambda talk: talk.judged(p)),
    st.sampled_from([_audio_made, _heard, _reply_over, _cancel, _commit, _clear]),
    LENGTH_MS.map(lambda ms: lambda talk: talk.pass_without_sound(ms)),
)
TALKS = st.lists(STEPS, max_size=40)


RULES = st.fixed_dictionaries({"replies": st.booleans(), "interrupts": st.booleans()})


def told(steps: list[Step], **rules: bool) -> Talk:
    talk = Talk(max_drafts=3, longest_turn_ms=4000, **rules)
    for step in steps:
        step(talk)
    return talk


@given(TALKS)
def test_no_turn_has_two_standing_commits(steps: list[Step]) -> None:
    standing: set[int] = set()
    for action in told(steps).actions:
        match action:
            case Commit(turn):
                assert turn not in standing
                standing.add(turn)
            case Reopen(turn, committed=True):
                standing.remove(turn)


@given(TALKS)
def test_only_a_committed_reply_is_paused_resumed_or_cut(steps: list[Step]) -> None:
    committed: set[int] = set()
    for action in told(steps).actions:
        match action:
            case Commit(turn):
                committed.add(turn)
            case PausePlayback(turn) | ResumePlayback(turn) | Cut(turn):
                assert turn in committed


@given(TALKS, RULES)
@settings(max_examples=200)
def test_every_turn_that_began_ends(steps: list[Step], rules: dict[str, bool]) -> None:
    talk = told(steps, **rules).silence(96).goes_on(10_000)
    talk.actions += talk.keeper.client_cancel()  # a reply that must be heard out is over some time
    talk.goes_on(10_000)
    ends = Commit | EndTurn | FailTurn | ForgetTurn
    ended = {action.turn for action in talk.actions if isinstance(action, ends)}
    assert {begun.turn for begun in talk.all(BeginTurn)} <= ended


@given(TALKS, RULES)
def test_a_turn_has_one_draft_at_a_time_and_a_bounded_number(steps: list[Step], rules: dict[str, bool]) -> None:
    alive: dict[int, int] = {}
    for action in told(steps, **rules).actions:
        match action:
            case Draft(turn, number):
                assert turn not in alive
                alive[turn] = number
            case DropDraft(turn, number):
                assert alive.pop(turn) == number
            case Commit(turn, number):
                assert alive.pop(turn) == number


@given(TALKS)
def test_a_turn_is_heard_from_its_first_syllable_however_often_it_reopens(steps: list[Step]) -> None:
    heard_from, open_turn = None, False
    for action in told(steps).actions:
        match action:
            case Hear(start):
                assert not open_turn or heard_from is None
                heard_from = start
            case BeginTurn(_, start):
                assert heard_from in (None, start)
                open_turn = True
            case Commit() | ForgetHeard():
                heard_from, open_turn = None, False
            case Reopen(_, committed=True):
                open_turn, heard_from = True, 0


@given(TALKS)
def test_turn_numbers_only_grow(steps: list[Step]) -> None:
    numbers = [begun.turn for begun in told(steps).all(BeginTurn)]
    assert numbers == sorted(set(numbers))
