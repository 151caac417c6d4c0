"""Listener: speech probabilities in, voice events out. Pure: no model, no clock, time is counted in frames."""

from __future__ import annotations

from enum import Enum

from pipeline.config import ListenConfig
from pipeline.frames import SpeechPaused, SpeechResumed, SpeechStarted, VoiceEvent
from pipeline.ports import RATE_HZ, SAMPLES_PER_MS, VAD_FRAME_SAMPLES

FRAME_MS = VAD_FRAME_SAMPLES * 1000 / RATE_HZ
# A voice that is near gets here within a word or two; a babble of voices or music never does.
CLEAR_PROBABILITY = 0.9


class _Voice(Enum):
    SILENT = "silent"
    SPEAKING = "speaking"
    PAUSED = "paused"


class Listener:
    """Hysteresis over the probabilities of one conversation, a frame of 32 ms at a time.

    Speech begins with a run of frames above the start probability and is dated back to the first of them. It
    pauses with a run below the stop probability and is dated back to the last frame that was not.
    """

    def __init__(self, config: ListenConfig) -> None:
        self.configure(config)
        self._voice = _Voice.SILENT
        self._run = 0  # frames in a row that speak for a change
        self._clearest = 0.0
        self.position = 0
        self.last_speech = 0

    def configure(self, config: ListenConfig) -> None:
        """Other limits from the next frame on."""
        self._start = config.start_probability
        self._stop = config.stop_probability
        self.preroll_samples = config.preroll_ms * SAMPLES_PER_MS
        self._start_frames = max(1, round(config.start_ms / FRAME_MS))
        self._pause_frames = max(1, round(config.pause_ms / FRAME_MS))

    @property
    def speaking(self) -> bool:
        """Whether speech is going on, a pause not being long enough yet to be one."""
        return self._voice is _Voice.SPEAKING

    @property
    def voiced(self) -> bool:
        """Whether speech is going on and the last frame was part of it."""
        return self.speaking and self._run == 0

    @property
    def clear(self) -> bool:
        """Whether speech is going on and was beyond doubt at some time: somebody near, not voices in a room."""
        return self.speaking and self._clearest >= CLEAR_PROBABILITY

    @property
    def quiet(self) -> bool:
        """Whether nothing sounds like speech, not even the beginning of it."""
        return not self.speaking and self._run == 0

    @property
    def onset_pending(self) -> bool:
        """Whether the last frames sound like speech but are too few yet to say that it began."""
        return not self.speaking and self._run > 0

    @property
    def silence_ms(self) -> float:
        """Milliseconds of sound since the last speech sample; since the beginning if there was none."""
        return (self.position - self.last_speech) * 1000 / RATE_HZ

    def push(self, probability: float) -> list[VoiceEvent]:
        """One frame of 512 samples with its speech probability in [0, 1]; returns what it decided."""
        self.position += VAD_FRAME_SAMPLES
        self._clearest = max(self._clearest, probability) if not self.quiet else probability
        return self._while_speaking(probability) if self.speaking else self._while_silent(probability)

    def rearm(self) -> None:
        """The turn is over: the next speech is a start, not a resumption."""
        if self._voice is _Voice.PAUSED:
            self._voice = _Voice.SILENT

    def starve(self) -> list[VoiceEvent]:
        """No sound comes any more (a muted microphone, a stalled network): speech that was going on pauses."""
        if not self.speaking:
            return []
        self._voice, self._run = _Voice.PAUSED, 0
        return [SpeechPaused(self.last_speech)]

    def _while_silent(self, probability: float) -> list[VoiceEvent]:
        self._run = self._run + 1 if probability >= self._start else 0
        if self._run < self._start_frames:
            return []
        began = self.position - self._run * VAD_FRAME_SAMPLES
        event = SpeechResumed(began) if self._voice is _Voice.PAUSED else SpeechStarted(began)
        self._voice, self._run, self.last_speech = _Voice.SPEAKING, 0, self.position
        return [event]

    def _while_speaking(self, probability: float) -> list[VoiceEvent]:
        if probability >= self._stop:
            self._run, self.last_speech = 0, self.position
            return []
        self._run += 1
        if self._run < self._pause_frames:
            return []
        self._voice, self._run = _Voice.PAUSED, 0
        return [SpeechPaused(self.last_speech)]
