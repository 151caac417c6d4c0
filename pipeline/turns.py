"""TurnKeeper: the only owner of turn numbers, drafts and commits; drawn in docs/turn-taking.md.

A pure state machine. It is told what happens (voice events, frames, transcripts, verdicts, the fate of drafts and
replies) and answers with actions for the session to carry out, in order. Positions are samples at 16 kHz since
the session began; ``now`` is seconds on the session's clock. It never waits, does I/O or looks at a clock itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from pipeline.actions import (
    Action,
    BeginTurn,
    Commit,
    Cut,
    Draft,
    EndTurn,
    FailTurn,
    FinishHearing,
    ForgetHeard,
    ForgetTurn,
    Hear,
    Reopen,
)
from pipeline.config import TurnConfig
from pipeline.endpointing import wait_ms
from pipeline.floor import Floor, ReplyFloor
from pipeline.frames import Final, Partial, SpeechPaused, SpeechResumed, SpeechStarted, VoiceEvent
from pipeline.over_reply import OverReply, Reaction
from pipeline.silence import Silence
from pipeline.timing import EndedBy
from pipeline.utterance import Phase, Utterance


class TurnKeeper:
    """Decides when the user is done and what interrupts a reply."""

    def __init__(self, config: TurnConfig, gap_ms: float = 600.0, playing: Callable[[], str] = lambda: "") -> None:
        """``playing`` gives the words of the latest reply that can have been heard: an echo repeats them."""
        self._config = config
        self._sound = Silence(gap_ms / 1000)
        self._playing = playing
        self._numbers = itertools.count(1)
        self._utterance: Utterance | None = None
        self._reply = ReplyFloor()

    @property
    def floor(self) -> Floor:
        """Where the reply stands."""
        return self._reply.stands

    @property
    def phase(self) -> Phase | None:
        """Where the user's utterance stands; None while nobody speaks."""
        return self._utterance.phase if self._utterance else None

    def configure(self, config: TurnConfig) -> None:
        """Other rules from now on."""
        self._config = config

    def new_number(self) -> int:
        """The number of a turn that is none of the keeper's business."""
        return next(self._numbers)

    # --- the user's voice ---

    def on_voice(self, event: VoiceEvent, now: float) -> list[Action]:
        """Speech began, paused or went on."""
        match event:
            case SpeechStarted(start) | SpeechResumed(start):
                return self._speech(start, now)
            case SpeechPaused(end):
                return self._pause(end)

    def on_frame(self, position: int, last_speech: int, now: float) -> list[Action]:
        """Sound up to ``position`` has been listened to; the last sample that sounded like speech is known."""
        self._sound.frame(position, last_speech, now)
        return self.on_time(now)

    def on_time(self, now: float) -> list[Action]:
        """Time passes; call it at every frame, and now and then when no frames come."""
        utterance = self._utterance
        if utterance is None:
            return []
        if not utterance.turn:
            return self._react(utterance, self._over_reply(utterance).at_sound())
        if utterance.phase is Phase.SPEAKING:
            return self._still_speaking(utterance, now)
        if utterance.phase is Phase.PAUSED:
            return self._still_silent(utterance, now)
        return self._commit_if_ready(utterance, now)

    def silence_ms(self, now: float) -> float:
        """Since the user's last speech sample; 0 while they speak, and while nobody does."""
        utterance = self._utterance
        if utterance is None or utterance.phase is Phase.SPEAKING:
            return 0.0
        return self._sound.since_ms(utterance.end, now)

    # --- what the stages found ---

    def on_partial(self, partial: Partial, now: float) -> list[Action]:
        """A transcript so far."""
        utterance = self._utterance
        if utterance is None or utterance.final is not None:
            return []
        utterance.take(f"{partial.stable} {partial.unstable}".strip())
        utterance.heard_until = partial.until
        if not utterance.turn:
            return self._react(utterance, self._over_reply(utterance).at_words())
        return self._draft_if_early(utterance)

    def on_final(self, final: Final, now: float) -> list[Action]:
        """The transcript at a pause; one for an earlier pause is stale and ignored."""
        utterance = self._utterance
        if utterance is None or utterance.phase is Phase.SPEAKING or final.until != utterance.end:
            return []
        utterance.take(final.text, final=True)
        if not utterance.turn:
            return [*self._react(utterance, self._over_reply(utterance).at_final()), *self.on_time(now)]
        return [*self._draft_if_early(utterance), *self.on_time(now)]

    def on_judgement(self, probability: float, until: int, now: float) -> list[Action]:
        """The sound's verdict on the pause after ``until``."""
        utterance = self._utterance
        if utterance is None or utterance.phase is Phase.SPEAKING or until != utterance.end:
            return []
        utterance.weigh(probability)
        return self.on_time(now) if utterance.turn else []

    def on_text_done(self, draft: Draft, probability: float, now: float) -> list[Action]:
        """The language model's verdict on the draft's text."""
        utterance = self._utterance
        if utterance is None or utterance.draft != draft:
            return []
        utterance.text_done = probability
        return self.on_time(now)

    def on_audio_ready(self, draft: Draft, now: float) -> list[Action]:
        """The draft's first audio is made, or it failed: there is nothing to wait for."""
        utterance = self._utterance
        if utterance is None or utterance.draft != draft:
            return []
        utterance.audio_ready = True
        return self.on_time(now)

    def on_hearing_failed(self, reason: str) -> list[Action]:
        """The transcriber failed: the turn it worked for cannot be answered."""
        utterance = self._utterance
        if utterance is None:
            return []
        return self._fail(utterance, reason) if utterance.turn else self._forget()

    # --- the fate of the reply ---

    def on_reply_heard(self, turn: int) -> None:
        """The first audio of the reply has left: from now on the user interrupts it."""
        self._reply.heard(turn)

    def on_reply_done(self, turn: int, now: float) -> list[Action]:
        """The reply was played to its end, failed, or was cut: the floor is free."""
        if turn != self._reply.turn:
            return []
        self._reply.release()
        utterance = self._utterance
        if utterance is None:
            return []
        if utterance.turn:
            return self.on_time(now)
        utterance.over = self._playing()
        utterance.leave_echo_out(utterance.over)
        if utterance.dismissed:
            return self._forget()
        return [*self._promote(utterance), *self.on_time(now)]

    # --- the client's own wishes ---

    def client_turn(self, turn: int = 0) -> tuple[int, list[Action]]:
        """A typed or asked-for turn takes the floor; returns its number, 0 while a reply has the floor.

        What the user is saying waits for its turn; a draft of it does not know of this reply and is dropped.
        """
        if not self._reply.free:
            return 0, []
        self._reply.take(turn or next(self._numbers))
        utterance = self._utterance
        if utterance is None:
            return self._reply.turn, []
        utterance.phase = Phase.PAUSED if utterance.phase is Phase.DECIDED else utterance.phase
        return self._reply.turn, utterance.drop_draft()

    def client_cancel(self) -> list[Action]:
        """The client cuts the reply."""
        if self._reply.free:
            return []
        cut, utterance = self._reply.cut(), self._utterance
        return self._promote(utterance, cut) if utterance and not utterance.turn else [cut]

    def client_commit(self, now: float) -> list[Action]:
        """The client says that the user is done, and will ask for the reply; nothing without a turn."""
        utterance = self._utterance
        if utterance is None or not utterance.turn:
            return []
        utterance.by_client, utterance.ended_by = True, EndedBy.CLIENT
        dropped = utterance.drop_draft()
        if utterance.phase is Phase.SPEAKING:
            utterance.pause(self._sound.position)
            return [*dropped, FinishHearing(self._sound.position)]
        utterance.phase = Phase.PAUSED
        return [*dropped, *self.on_time(now)]

    def client_clear(self) -> list[Action]:
        """The client throws away what the user is saying."""
        utterance, self._utterance = self._utterance, None
        if utterance is None:
            return []
        gone = [ForgetTurn(utterance.turn)] if utterance.turn else self._reply.resume()
        return [*utterance.drop_draft(), *gone, ForgetHeard()]

    # --- the user's turn, from its first word to its commit ---

    def _speech(self, start: int, now: float) -> list[Action]:
        utterance = self._utterance
        if utterance is None:
            return self._first_speech(start, now)
        closed = utterance.ended_by in (EndedBy.LONGEST_TURN, EndedBy.CLIENT)
        if closed or utterance.phase is Phase.SPEAKING:
            return []
        utterance.resume()
        if not utterance.turn:
            return []
        return [*utterance.drop_draft(), Reopen(utterance.turn, committed=False)]

    def _first_speech(self, start: int, now: float) -> list[Action]:
        if not self._config.interrupts and not self._reply.free:
            self._utterance = Utterance(start, now)
            return [Hear(start)]
        if (utterance := self._reply.take_back()) is not None:
            utterance.resume()
            utterance.draft, utterance.audio_ready = None, False
            self._utterance = utterance
            return [Reopen(utterance.turn, committed=True)]
        self._utterance = Utterance(start, now)
        match self._reply.stands:
            case Floor.FREE:
                return [*self._promote(self._utterance), Hear(start)]
            case Floor.SILENT:  # a reply to typed words, not heard yet: there is nothing to take back
                return [*self._cut(self._utterance), Hear(start)]
            case Floor.PLAYING | Floor.SUSPENDED:
                self._utterance.said_before = self._playing()
                return [Hear(start)]

    def _promote(self, utterance: Utterance, cut: Cut | None = None) -> list[Action]:
        """Speech becomes a turn, with whatever is known of it already; it may cut a reply.

        The turn begins before the cut, so that a client hears of the speech first and stops playing at once. The
        draft comes after it, so that it knows what was heard of the reply.
        """
        utterance.turn = next(self._numbers)
        begin = BeginTurn(utterance.turn, utterance.start)
        return [begin, *([cut] if cut else []), *self._draft_if_early(utterance)]

    def _pause(self, end: int) -> list[Action]:
        utterance = self._utterance
        if utterance is None or utterance.phase is not Phase.SPEAKING:
            return []
        utterance.pause(end)
        if not utterance.turn:
            return self._react(utterance, self._over_reply(utterance).at_pause())
        return [FinishHearing(end), *self._draft_if_early(utterance)]

    def _still_speaking(self, utterance: Utterance, now: float) -> list[Action]:
        if (now - utterance.began_at) * 1000 < self._config.longest_turn_ms:
            return []
        utterance.pause(self._sound.position)
        utterance.ended_by = EndedBy.LONGEST_TURN
        return [FinishHearing(self._sound.position)]

    def _still_silent(self, utterance: Utterance, now: float) -> list[Action]:
        silence = self.silence_ms(now)
        judge = utterance.next_judgement(silence, self._config.sure)
        if utterance.final is None:
            overdue = silence > self._config.longest_wait_ms + self._config.transcript_patience_ms
            return self._fail(utterance, "the transcript did not come in time") if overdue else judge
        wait = wait_ms(utterance.evidence(), self._config)
        if utterance.ended_by is None and silence < wait:
            return judge
        if not self._is_answered(utterance):
            utterance.ended_by = utterance.ended_by or self._clock_that_fired(wait, now)
            return self._end(utterance)
        if not self._reply.free:
            return []  # a reply that must be heard out goes first
        utterance.ended_by = utterance.ended_by or self._clock_that_fired(wait, now)
        utterance.phase, utterance.decided_at = Phase.DECIDED, now
        return [*utterance.draft_anew(), *self._commit_if_ready(utterance, now)]

    def _clock_that_fired(self, wait: float, now: float) -> EndedBy:
        if self._sound.stalled(now):
            return EndedBy.NO_AUDIO
        return EndedBy.LONGEST_WAIT if wait >= self._config.longest_wait_ms else EndedBy.EVIDENCE

    def _commit_if_ready(self, utterance: Utterance, now: float) -> list[Action]:
        waited_ms = (now - utterance.decided_at) * 1000
        if not utterance.audio_ready and waited_ms < self._config.commit_patience_ms:
            return []
        if utterance.draft is None or utterance.ended_by is None:
            return []
        self._utterance = None
        self._reply.take(utterance.turn, utterance)
        number, text = utterance.draft.number, utterance.draft.text
        return [Commit(utterance.turn, number, text, utterance.ended_by, utterance.decided_at)]

    # --- drafts, and turns without a reply ---

    def _draft_if_early(self, utterance: Utterance) -> list[Action]:
        """At a pause a draft is started before the turn is over, as often as the budget allows.

        It does not wait for the final transcript where an update has heard all the speech: mostly the two agree.
        """
        allowed = self._config.drafts and utterance.drafts < self._config.max_drafts
        ready = self._reply.free and utterance.heard_out
        return utterance.draft_anew() if allowed and ready and self._is_answered(utterance) else []

    def _is_answered(self, utterance: Utterance) -> bool:
        return self._config.replies and not utterance.by_client and utterance.wants_reply

    def _end(self, utterance: Utterance) -> list[Action]:
        self._utterance = None
        ended_by = utterance.ended_by or EndedBy.EVIDENCE
        kept = utterance.by_client or not self._config.replies
        return [
            *utterance.drop_draft(),
            EndTurn(utterance.turn, ended_by, utterance.final or "", kept),
            ForgetHeard(),
        ]

    def _fail(self, utterance: Utterance, reason: str) -> list[Action]:
        self._utterance = None
        return [*utterance.drop_draft(), FailTurn(utterance.turn, reason), ForgetHeard()]

    # --- speech over a reply ---

    def _over_reply(self, utterance: Utterance) -> OverReply:
        spoken_ms = utterance.spoken_ms(self._sound.last_speech)
        return OverReply(utterance, self.floor, spoken_ms, self._playing, self._config)

    def _react(self, utterance: Utterance, reaction: Reaction) -> list[Action]:
        match reaction:
            case Reaction.NONE:
                return []
            case Reaction.SUSPEND:
                return self._reply.suspend()
            case Reaction.CUT:
                return self._cut(utterance)
            case Reaction.DISMISS:
                utterance.dismissed = True
                return self._reply.resume()
            case Reaction.FORGET:
                return self._forget()
            case Reaction.HEAR_OUT:
                return [FinishHearing(utterance.end)]

    def _cut(self, utterance: Utterance) -> list[Action]:
        """It is an interruption; where none is wanted, it is a turn beside the reply."""
        if not self._config.interrupts:
            return self._promote(utterance)
        utterance.interrupts = True
        utterance.leave_echo_out(self._playing())
        return self._promote(utterance, self._reply.cut())

    def _forget(self) -> list[Action]:
        self._utterance = None
        return [*self._reply.resume(), ForgetHeard()]
