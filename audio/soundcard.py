"""The sound card: a microphone and a loudspeaker, each at its own rate, behind buffers that never wait."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from audio.devices import Device, Direction, choose, list_devices, portaudio, refusal
from audio.echo import Moment
from audio.format import Samples, check_rate
from audio.playout import Playout
from audio.ring import SampleRing

MICROPHONE_S = 2.0  # what the conversation may be late by before sound is lost
LATENCY_S = {"input": 0.02, "output": 0.06}  # asked of the device; a late callback is heard, a late look is not
STALLED_S = 2.0  # a device that calls back no more for so long is gone


@dataclass(slots=True)
class Counters:
    """What went wrong between the device and its buffers, in times that it happened."""

    overruns: int = 0
    underruns: int = 0


class Ends(Protocol):
    """A conversation's two ends: a sound card, or a room that is simulated."""

    microphone_hz: int
    speaker_hz: int
    microphone: SampleRing
    reference: SampleRing
    playout: Playout
    counters: Counters
    captured: Moment
    rendered: Moment

    def name(self, direction: Direction) -> str:
        """What the device is called."""

    def gone(self) -> Direction | None:
        """The device that has vanished, or stopped calling back."""

    def close(self) -> None:
        """Stop both; what waits for the loudspeaker stays in ``playout``."""


class SoundCard:
    """Opens two devices and serves their callbacks until it is closed.

    The callbacks copy between the device and preallocated rings and note when; they take no lock, make no array
    and never log. ``microphone`` is what was said, ``reference`` what the loudspeaker was given, sample by sample;
    ``captured`` and ``rendered`` say when the first sample of the latest block was, or will be, in the air.
    """

    def __init__(self, microphone: Device, speaker: Device, from_hz: int) -> None:
        self.devices: dict[Direction, Device] = {"input": microphone, "output": speaker}
        self.microphone_hz, self.speaker_hz = check_rate(microphone.rate_hz), check_rate(speaker.rate_hz)
        self.microphone = SampleRing(round(MICROPHONE_S * self.microphone_hz))
        self.reference = SampleRing(round(MICROPHONE_S * self.speaker_hz))
        self.playout = Playout(from_hz, self.speaker_hz)
        self.counters = Counters()
        self.captured = self.rendered = Moment(0, 0.0)
        self._streams: dict[Direction, Any] = {}
        self._open = ExitStack()

    def open(self) -> Self:
        """Start both streams. Raises DeviceError when one does not open."""
        library = portaudio()
        with ExitStack() as opening:
            self.rendered = self._start(opening, "output", library.OutputStream, self._render)
            self.captured = self._start(opening, "input", library.InputStream, self._capture)
            self._open = opening.pop_all()
        return self

    def close(self) -> None:
        """Stop both streams; what waits for the loudspeaker stays in ``playout``."""
        self._open.close()

    def name(self, direction: Direction) -> str:
        """What the device is called."""
        return self.devices[direction].name

    def gone(self) -> Direction | None:
        """The device that has vanished, or stopped calling back."""
        latest: dict[Direction, Moment] = {"input": self.captured, "output": self.rendered}
        return next((each for each in self._streams if self._is_dead(each, latest[each])), None)

    def _is_dead(self, direction: Direction, latest: Moment) -> bool:
        stream = self._streams[direction]
        try:
            return not stream.active or bool(stream.time - latest.at_s > STALLED_S)
        except portaudio().PortAudioError:  # it cannot even be asked
            return True

    def _start(self, opening: ExitStack, direction: Direction, kind: Any, callback: Callable[..., None]) -> Moment:
        """Open and start a stream; a moment to begin with, until its first callback."""
        device = self.devices[direction]
        stream = _open_stream(kind, device, direction, callback)
        self._streams[direction] = opening.enter_context(closing(stream))
        try:
            stream.start()
        except portaudio().PortAudioError as error:
            raise refusal(direction, device, str(error)) from error
        return Moment(0, stream.time)

    def _capture(self, sound: Samples, frames: int, time: Any, status: Any) -> None:
        self.captured = Moment(self.microphone.written, time.inputBufferAdcTime or time.currentTime)
        self.counters.overruns += status.input_overflow or frames > self.microphone.write(sound[:, 0])

    def _render(self, out: Samples, frames: int, time: Any, status: Any) -> None:
        first = out[:, 0]
        self.playout.fill(first)
        out[:, 1:] = first[:, np.newaxis]
        self.rendered = Moment(self.reference.written, time.outputBufferDacTime or time.currentTime)
        self.reference.write(first)
        self.counters.underruns += bool(status.output_underflow)


def open_card(
    from_hz: int, microphone: str | None = None, speaker: str | None = None, *, again: bool = False
) -> SoundCard:
    """The devices with these indices or names, or the defaults, opened; ``again`` after one of them has gone.

    Raises DeviceError when there is none, or it does not open.
    """
    return SoundCard(*choose_both(microphone, speaker, again=again), from_hz).open()


def choose_both(microphone: str | None, speaker: str | None, *, again: bool = False) -> tuple[Device, Device]:
    """The microphone and the loudspeaker that are meant. Raises DeviceError when there is no such thing."""
    devices = list_devices(again=again)
    return choose(devices, "input", microphone), choose(devices, "output", speaker)


def _open_stream(kind: Any, device: Device, direction: Direction, callback: Callable[..., None]) -> Any:
    """A stream of one channel, or of all that the device has where it does not give one alone."""
    library = portaudio()
    failure: Exception | None = None
    for channels in dict.fromkeys((1, device.channels(direction))):
        try:
            return kind(
                device=device.index,
                channels=channels,
                samplerate=device.rate_hz,
                dtype="float32",
                latency=LATENCY_S[direction],
                callback=callback,
            )
        except library.PortAudioError as error:
            failure = error
    raise refusal(direction, device, str(failure)) from failure
