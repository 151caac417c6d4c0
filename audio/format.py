"""Audio formats and chunks: the only conversions between bytes, int16, float32, milliseconds and samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
Encoding = Literal["pcm16", "pcmu", "pcma"]

# Below is no speech, above no sound card: a rate outside is a wrong unit or a broken header.
MIN_RATE_HZ = 4_000
MAX_RATE_HZ = 384_000

_FULL_SCALE = 32_768  # the magnitude of the lowest int16, so that int16 -> float32 -> int16 loses nothing
_BYTES_PER_SAMPLE: dict[Encoding, int] = {"pcm16": 2, "pcmu": 1, "pcma": 1}


class AudioError(Exception):
    """Sound that cannot be used: what is wrong with it, and what to do."""


def check_rate(rate_hz: int) -> int:
    """The rate itself; raises AudioError when no sound that Echoic can use has this rate."""
    if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
        raise AudioError(
            f"a sample rate of {rate_hz} Hz is outside {MIN_RATE_HZ}..{MAX_RATE_HZ} Hz; resample the sound first"
        )
    return rate_hz


def ms_to_samples(ms: float, rate_hz: int) -> int:
    """How many samples last that long, to the nearest one."""
    return round(ms * rate_hz / 1000)


def samples_to_ms(samples: int, rate_hz: int) -> float:
    """How long that many samples last."""
    return samples * 1000 / rate_hz


@dataclass(frozen=True, slots=True, eq=False)
class AudioChunk:
    """A piece of mono sound: float32 ``[n]`` in [-1, 1], its rate, and where it begins in its stream.

    ``start`` counts samples at ``rate_hz`` since the stream began.
    """

    samples: Samples
    rate_hz: int
    start: int = 0

    @property
    def end(self) -> int:
        """The position after the last sample, which is where the next piece begins."""
        return self.start + len(self.samples)

    @property
    def duration_ms(self) -> float:
        """How long the piece sounds."""
        return samples_to_ms(len(self.samples), self.rate_hz)


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """How sound travels as bytes: 16-bit little-endian PCM, G.711 mu-law or G.711 A-law; channels interleaved."""

    encoding: Encoding
    rate_hz: int
    channels: int = 1

    def __post_init__(self) -> None:
        if self.encoding not in _BYTES_PER_SAMPLE:
            raise AudioError(f"unknown encoding {self.encoding!r}; use one of {', '.join(_BYTES_PER_SAMPLE)}")
        if self.channels < 1:
            raise AudioError(f"{self.channels} channels; sound has at least one")
        check_rate(self.rate_hz)

    @property
    def frame_bytes(self) -> int:
        """How many bytes one sample of every channel takes."""
        return _BYTES_PER_SAMPLE[self.encoding] * self.channels

    def duration_ms(self, data: bytes) -> float:
        """How long these bytes sound."""
        return samples_to_ms(len(data) // self.frame_bytes, self.rate_hz)

    def decode(self, data: bytes) -> Samples:
        """Bytes to mono float32 ``[n]``, channels mixed. Raises AudioError when the bytes end within a sample."""
        if len(data) % self.frame_bytes:
            raise AudioError(
                f"{len(data)} bytes end within a sample of {self.encoding}; "
                f"send a multiple of {self.frame_bytes} bytes"
            )
        samples = int16_to_float(self._decode_int16(data))
        return samples if self.channels == 1 else mix_to_mono(samples.reshape(-1, self.channels))

    def encode(self, samples: Samples) -> bytes:
        """Mono float32 ``[n]`` to bytes, clipped to full scale and the same on every channel."""
        values = float_to_int16(samples).repeat(self.channels)
        match self.encoding:
            case "pcm16":
                return values.astype("<i2").tobytes()
            case "pcmu":
                return _mu_law_codes()[values.view(np.uint16)].tobytes()
            case "pcma":
                return _a_law_codes()[values.view(np.uint16)].tobytes()

    def _decode_int16(self, data: bytes) -> NDArray[np.int16]:
        match self.encoding:
            case "pcm16":
                return np.frombuffer(data, "<i2").astype(np.int16, copy=False)
            case "pcmu":
                return _mu_law_values()[np.frombuffer(data, np.uint8)]
            case "pcma":
                return _a_law_values()[np.frombuffer(data, np.uint8)]


def int16_to_float(values: NDArray[np.int16]) -> Samples:
    """16-bit samples as float32 in [-1, 1)."""
    return values.astype(np.float32) / np.float32(_FULL_SCALE)


def float_to_int16(samples: Samples) -> NDArray[np.int16]:
    """float32 samples as 16 bit, clipped to full scale. Raises AudioError for NaN or infinite samples."""
    if not np.isfinite(samples).all():
        raise AudioError("NaN or infinite samples have no loudness; repair the stage that made them")
    scaled = np.rint(samples * np.float32(_FULL_SCALE))
    values: NDArray[np.int16] = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int16)
    return values


def mix_to_mono(samples: Samples) -> Samples:
    """Sound of shape ``[n, channels]`` as mono ``[n]``: the mean of its channels."""
    mono: Samples = samples.mean(axis=1, dtype=np.float32)
    return mono


# G.711 (ITU-T, 1988) in tables: 256 values to decode with, 65,536 codes to encode with (indexed by the sample's
# own 16 bits). Made on first use; a table costs a few milliseconds and 64 KB.


@cache
def _mu_law_values() -> NDArray[np.int16]:
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    magnitude = (((mantissa << 3) + 132) << exponent) - 132
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


@cache
def _mu_law_codes() -> NDArray[np.uint8]:
    value = _every_int16()
    magnitude = np.minimum(_magnitude(value), 32_635) + 132
    exponent = np.frexp(magnitude)[1] - 8  # the bias of 132 puts the highest bit at 7 or above
    mantissa = (magnitude >> (exponent + 3)) & 15
    sign = np.where(value < 0, 0x80, 0)
    codes: NDArray[np.uint8] = (~(sign | exponent << 4 | mantissa)).astype(np.uint8)
    return codes


@cache
def _a_law_values() -> NDArray[np.int16]:
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    step = (mantissa << 4) + 8
    magnitude = np.where(exponent == 0, step, (step + 256) << np.maximum(exponent, 1) - 1)
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


@cache
def _a_law_codes() -> NDArray[np.uint8]:
    value = _every_int16() >> 3
    magnitude = _magnitude(value)
    exponent = np.maximum(np.frexp(magnitude)[1] - 5, 0)  # the lowest two segments share one step size
    mantissa = (magnitude >> np.maximum(exponent, 1)) & 15
    sign = np.where(value < 0, 0, 0x80)
    codes: NDArray[np.uint8] = ((sign | exponent << 4 | mantissa) ^ 0x55).astype(np.uint8)
    return codes


def _magnitude(value: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.where(value < 0, ~value, value)  # one's complement, as the standard's own reference code has it


def _every_int16() -> NDArray[np.int32]:
    return np.arange(1 << 16, dtype=np.uint16).view(np.int16).astype(np.int32)
