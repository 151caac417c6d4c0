"""Memory: what a conversation remembers of its turns, as text and as a state that fades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.events import MemoryHeld
from pipeline.history import History, reply_key, user_key
from pipeline.ports import Prompt
from pipeline.timing import Clock, TurnRecord

if TYPE_CHECKING:
    from codec.memory import EchoicMemory
    from codec.window import SegmentState

HEARD_LATELY_S = 0.15  # whoever was heard so short a time ago is being heard


class Memory:
    """The text of a conversation and its echoic memory, so that what is in one is what is in the other.

    A turn is ``said`` as it is read, and comes to rest when its reply is over: ``settle`` keeps it, ``take_back``
    does not. The state speaks for what the text does not hold: what fell out of the budget or, in private mode,
    all that was said before this turn.
    """

    def __init__(self, history: History, echoic: EchoicMemory | None, clock: Clock, *, private: bool) -> None:
        self.history, self.private = history, private
        self._echoic, self._clock = echoic, clock
        self._answered: tuple[str, ...] = ()  # the keys of the committed turn's text, the newest last
        self._told: tuple[tuple[float, ...], bool] = ((), False)
        self._era = 0  # of the window when the turn was committed

    def with_state(self, prompt: Prompt) -> Prompt:
        """The prompt of this conversation, with the state of what was said and is not in its text."""
        if self._echoic is None:
            return prompt
        state = self._echoic.fused(self._clock(), but=self.history.keys)
        return replace(prompt, state=state) if state.segments else prompt

    def measure(self, record: TurnRecord) -> None:
        """Note the health of the state that the last prompt was given."""
        if self._echoic is None:
            return
        health = self._echoic.health
        record.states_dropped = self._echoic.dropped
        record.state_entropy_bits = health.entropy_bits if health else None
        record.state_z_score = health.z_score if health else None

    def said(self, segments: Sequence[SegmentState]) -> None:
        """The message that is being read is this, so far."""
        if self._echoic is not None and segments:
            self._echoic.hear(segments, self._clock())

    def take_back(self) -> None:
        """What was being said is no turn."""
        if self._echoic is not None:
            self._echoic.unhear(self._clock())

    def commit(self, turn: int, text: str) -> None:
        """This is a turn: the text that is answered is remembered."""
        self.history.add_user(text, user_key(turn))
        self._answered = self.history.keys
        self._era = self._echoic.era if self._echoic else 0

    def settle(self, turn: int, message: Sequence[SegmentState], reply: Sequence[SegmentState]) -> None:
        """The turn is over: its message and what was heard of the reply come to rest, and in private mode its text
        goes. Words that call for a tool stay until its output is answered."""
        if self._echoic is not None:
            # Words that went silent for too long while the reply was made are gone, and do not come back.
            self._settle(message if self._echoic.era == self._era else (), next(reversed(self._answered), ""))
            self._settle(reply, reply_key(turn))
        if self.private and not self.history.holds(reply_key(turn)):
            for key in self._answered:
                self.history.remove(key)

    def _settle(self, segments: Sequence[SegmentState], key: str) -> None:
        if self._echoic is not None and segments:
            now = self._clock()
            self._echoic.hear([replace(segment, message=key) for segment in segments], now)
            self._echoic.settle(now)

    def touch(self) -> None:
        """Either side is being heard."""
        if self._echoic is not None:
            self._echoic.touch(self._clock())

    def expire(self) -> bool:
        """Drop the state when its time is over; True where there was one."""
        return self._echoic is not None and self._echoic.expire(self._clock())

    def news(self) -> MemoryHeld | None:
        """What the echoic memory holds, where that is not as it was last told."""
        if self._echoic is None:
            return None
        weights, left_s = self._echoic.outlook(self._clock())
        fading = bool(weights) and left_s < self._echoic.expiry_s - HEARD_LATELY_S
        if (weights, fading) == self._told:
            return None
        self._told = weights, fading
        return MemoryHeld(weights, left_s if weights else 0.0, fading)

    def clear(self) -> None:
        """The session is over."""
        if self._echoic is not None:
            self._echoic.clear()
        if self.private:
            for key in self.history.keys:
                self.history.remove(key)
