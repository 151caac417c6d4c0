"""The echo's path: what the loudspeaker says is taken out of what the microphone hears.

The canceller is WebRTC's audio processing (echo cancellation, noise suppression, gain), which has to be shown
every 10 ms of the loudspeaker's sound before its echo comes in. Which 10 ms belong to which is measured: both
devices say when their samples are in the air.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Any, NamedTuple, Protocol

import numpy as np

from audio.format import AudioError, Samples, float_to_int16, int16_to_float, ms_to_samples
from audio.framer import Framer, PreRoll
from audio.resample import StreamResampler

FRAME_MS = 10
# The reference is shown this much before the sound is in the air: devices are wrong about their delays, and a
# reference that comes after its echo cancels nothing. The canceller finds echoes up to 0.4 s late by itself.
LEAD_MS = 40.0
SHIFT_TOLERANCE_MS = 20.0  # a device's times jitter; a smaller step than this is no step
MEASURED = 25  # latest measurements, whose median counts
REFERENCE_S = 3.0


class Moment(NamedTuple):
    """When a sample of a device's stream is in the air: its position, and seconds on the devices' clock."""

    position: int
    at_s: float


class Canceller(Protocol):
    """Cancels the echo of ``reference`` in ``heard``, 10 ms at a time."""

    def process(self, heard: Samples, reference: Samples) -> Samples:
        """What was heard, without what the loudspeaker said."""


class WebRtcCanceller:
    """WebRTC's audio processing by LiveKit's binding, which needs no LiveKit server."""

    def __init__(self, rate_hz: int) -> None:
        try:
            from livekit.rtc.apm import AudioProcessingModule
            from livekit.rtc.audio_frame import AudioFrame
        except ImportError as error:
            raise AudioError(
                "echo cancellation needs livekit: pip install 'echoic[mic]', or choose --no-echo-cancellation"
            ) from error
        self._rate_hz = rate_hz
        self._frame = AudioFrame
        self._processing: Any = AudioProcessingModule(
            echo_cancellation=True, noise_suppression=True, high_pass_filter=True, auto_gain_control=True
        )

    def process(self, heard: Samples, reference: Samples) -> Samples:
        """What was heard, without what the loudspeaker said. Raises AudioError when the library fails."""
        near = self._framed(heard)
        try:
            self._processing.process_reverse_stream(self._framed(reference))
            # The reference is aligned already; what is left of the delay the canceller finds by itself.
            self._processing.set_stream_delay_ms(0)
            self._processing.process_stream(near)
        except RuntimeError as error:
            raise AudioError(f"echo cancellation failed: {error}; choose --no-echo-cancellation") from error
        return int16_to_float(np.frombuffer(near.data, np.int16))

    def _framed(self, samples: Samples) -> Any:
        return self._frame(float_to_int16(samples).tobytes(), self._rate_hz, 1, len(samples))


class EchoPath:
    """From two devices, each at its own rate, to the microphone's sound at ``rate_hz`` without echo.

    Without a canceller the sound is only resampled. Pure: it is given samples and moments, and counts by itself.
    """

    def __init__(self, microphone_hz: int, speaker_hz: int, rate_hz: int, canceller: Canceller | None) -> None:
        self.delay_ms = 0.0
        self._rate_hz = rate_hz
        self._canceller = canceller
        self._near = StreamResampler(microphone_hz, rate_hz)
        self._far = StreamResampler(speaker_hz, rate_hz)
        self._framer = Framer(ms_to_samples(FRAME_MS, rate_hz))
        self._played = PreRoll(ms_to_samples(REFERENCE_S * 1000, rate_hz), rate_hz)
        self._heard = 0  # samples at ``rate_hz`` that went through
        self._measured: deque[float] = deque(maxlen=MEASURED)
        self._shift: int | None = None

    def push(self, heard: Samples, captured: Moment, played: Samples, rendered: Moment) -> Samples:
        """More of what was heard and played, each at its device's rate: whole frames of 10 ms, without echo.

        A moment says when one sample of its device's stream is in the air.
        """
        self._played.push(self._far.push(played))
        self._measure(captured, rendered)
        frames = [self._process(frame) for frame in self._framer.push(self._near.push(heard))]
        return np.concatenate(frames) if frames else np.zeros(0, np.float32)

    def _measure(self, captured: Moment, rendered: Moment) -> None:
        """How many samples the loudspeaker's stream is ahead of the microphone's, for sounds of one moment."""
        said = rendered.position * self._rate_hz / self._far.from_hz
        heard = captured.position * self._rate_hz / self._near.from_hz
        self._measured.append(said - heard + (captured.at_s - rendered.at_s) * self._rate_hz)
        shift = round(median(self._measured))
        tolerance = ms_to_samples(SHIFT_TOLERANCE_MS, self._rate_hz)
        if self._shift is None or abs(shift - self._shift) > tolerance:
            self._shift = shift
        # Of the sound that is heard now, how long ago the loudspeaker's stream was given it.
        self.delay_ms = (self._played.end - self._heard - self._shift) * 1000 / self._rate_hz

    def _process(self, frame: Samples) -> Samples:
        start = self._heard
        self._heard += len(frame)
        if self._canceller is None:
            return frame
        assert self._shift is not None
        return self._canceller.process(frame, self._reference(start + self._shift, len(frame)))

    def _reference(self, said_at: int, length: int) -> Samples:
        """What is said in the air from this position on, ``LEAD_MS`` early; silence where nothing is known."""
        start = said_at + ms_to_samples(LEAD_MS, self._rate_hz)
        known = self._played.cut(start, start + length)
        reference = np.zeros(length, np.float32)
        at = known.start - start
        if 0 <= at < length:
            reference[at : at + len(known.samples)] = known.samples
        return reference
