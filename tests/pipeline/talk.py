"""A talk told to a TurnKeeper in milliseconds, and what it answered: the language of the turn-taking tests."""

from __future__ import annotations

from typing import TypeVar

from pipeline.actions import Action, Draft, FinishHearing
from pipeline.config import TurnConfig
from pipeline.frames import Final, Partial, SpeechPaused, SpeechResumed, SpeechStarted
from pipeline.ports import SAMPLES_PER_MS
from pipeline.turns import TurnKeeper

FRAME_MS = 32
A = TypeVar("A")


class Talk:
    """Feeds frames in real time: speech, silence and the stages' findings, in the order they are called."""

    def __init__(self, **config: object) -> None:
        self.saying = ""  # what the reply has said so far
        self.keeper = TurnKeeper(TurnConfig(**config), playing=lambda: self.saying)
        self.ms = 0.0
        self.actions: list[Action] = []
        self.speech_end = 0
        self._spoken_before = self._speaking = False

    def speech(self, ms: float) -> Talk:
        """The user speaks; ends with the pause being seen only if ``silence`` follows."""
        kind = SpeechResumed if self._spoken_before else SpeechStarted
        self._do(self.keeper.on_voice(kind(self._position), self._now))
        self._spoken_before = self._speaking = True
        self._pass(ms)
        return self

    def silence(self, ms: float) -> Talk:
        """Nobody speaks; the listener sees the pause after three frames of it."""
        self._speaking = False
        self._pass(min(ms, 3 * FRAME_MS))
        if ms >= 3 * FRAME_MS:
            self._do(self.keeper.on_voice(SpeechPaused(self.speech_end), self._now))
            self._pass(ms - 3 * FRAME_MS)
        return self

    def partial(self, text: str) -> Talk:
        self._do(self.keeper.on_partial(Partial(text, "", self._position), self._now))
        return self

    def final(self, text: str) -> Talk:
        self._do(self.keeper.on_final(Final(text, self.speech_end), self._now))
        return self

    def judged(self, probability: float) -> Talk:
        self._do(self.keeper.on_judgement(probability, self.speech_end, self._now))
        return self

    def text_done(self, probability: float) -> Talk:
        self._do(self.keeper.on_text_done(self.last(Draft), probability, self._now))
        return self

    def audio_made(self) -> Talk:
        self._do(self.keeper.on_audio_ready(self.last(Draft), self._now))
        return self

    def heard(self, turn: int) -> Talk:
        self.keeper.on_reply_heard(turn)
        return self

    def says(self, text: str) -> Talk:
        """The reply has said this."""
        self.saying = text
        return self

    def reply_over(self, turn: int) -> Talk:
        self._do(self.keeper.on_reply_done(turn, self._now))
        return self

    def pass_without_sound(self, ms: float) -> Talk:
        """The clock goes on, but no frame comes."""
        for _ in range(int(ms / 50)):
            self.ms += 50
            self._do(self.keeper.on_time(self._now))
        return self

    def all(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]

    def last(self, kind: type[A]) -> A:
        return self.all(kind)[-1]

    def names(self) -> list[str]:
        return [type(action).__name__ for action in self.actions]

    def question(self, text: str = "What is the time?") -> Talk:
        """A whole question, its reply committed and being heard."""
        turn = len(self.all(FinishHearing)) + 1
        self.speech(1000).silence(96).final(text).judged(0.97).audio_made().goes_on(300)
        return self.heard(turn)

    def goes_on(self, ms: float) -> Talk:
        self._pass(ms)
        return self

    @property
    def _now(self) -> float:
        return self.ms / 1000

    @property
    def _position(self) -> int:
        return int(self.ms) * SAMPLES_PER_MS

    def _pass(self, ms: float) -> None:
        end = self.ms + ms
        while self.ms + FRAME_MS <= end:
            self.ms += FRAME_MS
            self.speech_end = self._position if self._speaking else self.speech_end
            self._do(self.keeper.on_frame(self._position, self.speech_end, self._now))

    def _do(self, actions: list[Action]) -> None:
        self.actions += actions
