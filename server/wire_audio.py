"""Sound on the Realtime wire: base64 of 24 kHz PCM or of 8 kHz G.711, to and from what the session works with."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from audio.format import AudioFormat, Samples
from audio.resample import StreamResampler
from pipeline.ports import RATE_HZ
from server.given import ProtocolError

MOST_RECORDED_S = 120  # what a client sends after a recording waits for its words

_FORMATS = {
    "audio/pcm": AudioFormat("pcm16", 24_000),
    "audio/pcmu": AudioFormat("pcmu", 8_000),
    "audio/pcma": AudioFormat("pcma", 8_000),
}


def wire_format(told: Mapping[str, Any]) -> AudioFormat:
    """The format that a session object names."""
    return _FORMATS.get(told["type"], _FORMATS["audio/pcm"])


class SoundIn:
    """A client's sound: may be cut anywhere, even within a sample."""

    def __init__(self) -> None:
        self.format = _FORMATS["audio/pcm"]
        self._odd_byte = b""
        self._begin()

    @property
    def held_ms(self) -> float:
        """How much has come since it was last cleared."""
        return self._held_ms

    def use(self, sound: AudioFormat) -> None:
        """What comes from now on is in this format."""
        if sound != self.format:
            self.format = sound
            self._begin()

    def push(self, text: str) -> Samples:
        """More of it, in base64: the samples at 16 kHz that are ready. Raises ProtocolError."""
        try:
            data = self._odd_byte + base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ProtocolError("invalid_value", f"Invalid audio: not base64 ({error}).", "audio") from error
        whole = len(data) - len(data) % self.format.frame_bytes
        self._odd_byte = data[whole:]
        self._held_ms += self.format.duration_ms(data[:whole])
        return self._resampler.push(self.format.decode(data[:whole]))

    def commit(self) -> Samples:
        """The samples that were held back for want of what follows; what comes next is new sound."""
        self._held_ms = 0.0
        return self._resampler.finish()

    def clear(self) -> None:
        """Forget what is held."""
        self._begin()

    def _begin(self) -> None:
        self._resampler = StreamResampler(self.format.rate_hz, RATE_HZ)
        self._odd_byte = b""
        self._held_ms = 0.0


def recordings(given: Mapping[str, Any], item: Mapping[str, Any], sound: AudioFormat) -> dict[int, Samples]:
    """The sounds of a client's item that come without their words, by their place in it. Raises ProtocolError."""
    missing = {"type": "input_audio", "transcript": None}
    return {
        place: _recording(given["content"][place]["audio"], sound)
        for place, part in enumerate(item.get("content", []))
        if part == missing and given["content"][place].get("audio")
    }


def _recording(text: object, sound: AudioFormat) -> Samples:
    if not isinstance(text, str):
        raise ProtocolError("invalid_type", "Invalid type for 'audio': expected a string.", "item.content")
    whole = SoundIn()
    whole.use(sound)
    samples = np.concatenate((whole.push(text), whole.commit()))
    if len(samples) > MOST_RECORDED_S * RATE_HZ:
        got_s = len(samples) / RATE_HZ
        message = f"Invalid 'audio': too long. Expected at most {MOST_RECORDED_S} s, got {got_s:.1f} s."
        raise ProtocolError("invalid_value", message, "item.content")
    return samples


class SoundOut:
    """A reply's sound on its way to the client."""

    def __init__(self, sound: AudioFormat) -> None:
        self._format = sound
        self._resampler: StreamResampler | None = None

    def push(self, pcm: bytes, rate_hz: int) -> str:
        """16-bit PCM as base64 in the client's format; "" while there is no whole sample."""
        if self._format == AudioFormat("pcm16", rate_hz):
            return base64.b64encode(pcm).decode("ascii")
        if self._resampler is None:
            self._resampler = StreamResampler(rate_hz, self._format.rate_hz)
        return self._encoded(self._resampler.push(AudioFormat("pcm16", rate_hz).decode(pcm)))

    def finish(self) -> str:
        """The rest of it."""
        return "" if self._resampler is None else self._encoded(self._resampler.finish())

    def _encoded(self, samples: Samples) -> str:
        return base64.b64encode(self._format.encode(np.clip(samples, -1.0, 1.0))).decode("ascii")
