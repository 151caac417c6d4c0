"""Conversions between bytes, int16, float32, milliseconds and samples."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from audio.format import (
    AudioChunk,
    AudioError,
    AudioFormat,
    Encoding,
    float_to_int16,
    int16_to_float,
    ms_to_samples,
    samples_to_ms,
)

EVERY_INT16 = np.arange(-32_768, 32_768, dtype=np.int16)
EVERY_CODE = bytes(range(256))


def test_every_16_bit_value_survives_the_way_through_float() -> None:
    assert np.array_equal(float_to_int16(int16_to_float(EVERY_INT16)), EVERY_INT16)


def test_samples_above_full_scale_are_clipped_not_wrapped() -> None:
    assert float_to_int16(np.array([1.0, 7.0, -1.0, -7.0], np.float32)).tolist() == [32767, 32767, -32768, -32768]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_sample_without_a_loudness_is_refused(value: float) -> None:
    with pytest.raises(AudioError, match="NaN or infinite"):
        float_to_int16(np.array([0.0, value], np.float32))


@pytest.mark.parametrize(("encoding", "subtype"), [("pcmu", "ULAW"), ("pcma", "ALAW")])
def test_g711_decodes_as_libsndfile_decodes_it(encoding: Encoding, subtype: str, tmp_path: Path) -> None:
    raw = tmp_path / "codes.raw"
    raw.write_bytes(EVERY_CODE)
    expected, _ = soundfile.read(raw, samplerate=8000, channels=1, subtype=subtype, format="RAW", dtype="int16")
    assert np.array_equal(float_to_int16(AudioFormat(encoding, 8000).decode(EVERY_CODE)), expected)


@pytest.mark.parametrize(("encoding", "minus_zero"), [("pcmu", b"\x7f"), ("pcma", b"")])
def test_every_g711_code_survives_decoding_and_encoding(encoding: Encoding, minus_zero: bytes) -> None:
    line = AudioFormat(encoding, 8000)
    codes = EVERY_CODE.replace(minus_zero, b"\xff") if minus_zero else EVERY_CODE  # mu-law has two zeros
    assert line.encode(line.decode(EVERY_CODE)) == codes


@pytest.mark.parametrize(("encoding", "snr_db"), [("pcmu", 33), ("pcma", 33), ("pcm16", 60)])
@pytest.mark.parametrize("loudness", [0.9, 0.05])
def test_loud_and_soft_speech_stays_well_above_the_noise(
    encoding: Encoding, snr_db: float, loudness: float
) -> None:
    line = AudioFormat(encoding, 8000)
    tone = np.sin(np.arange(8000) / 3).astype(np.float32) * loudness
    noise = line.decode(line.encode(tone)) - tone
    assert 10 * np.log10((tone**2).mean() / (noise**2).mean()) > snr_db


def test_known_codes_of_the_standard() -> None:
    silence_and_peaks = int16_to_float(np.array([0, -1, 32_767, -32_768], np.int16))
    assert AudioFormat("pcmu", 8000).encode(silence_and_peaks) == b"\xff\x7f\x80\x00"
    assert AudioFormat("pcma", 8000).encode(silence_and_peaks) == b"\xd5\x55\xaa\x2a"


def test_pcm16_is_little_endian() -> None:
    assert AudioFormat("pcm16", 16_000).encode(np.array([1 / 32_768], np.float32)) == b"\x01\x00"


def test_stereo_bytes_are_mixed_and_mono_sound_goes_to_both_channels() -> None:
    stereo = AudioFormat("pcm16", 16_000, channels=2)
    assert stereo.decode(np.array([8192, 16384], "<i2").tobytes()).tolist() == [0.375]
    assert np.frombuffer(stereo.encode(np.array([0.5], np.float32)), "<i2").tolist() == [16384, 16384]


@pytest.mark.parametrize(("channels", "size"), [(1, 3), (2, 6)])
def test_bytes_that_end_within_a_sample_are_refused(channels: int, size: int) -> None:
    with pytest.raises(AudioError, match="end within a sample"):
        AudioFormat("pcm16", 16_000, channels).decode(bytes(size))


@pytest.mark.parametrize("rate_hz", [0, 1, -8000, 3999, 384_001, 768_000])
def test_a_rate_that_no_speech_has_is_refused(rate_hz: int) -> None:
    with pytest.raises(AudioError, match=f"{rate_hz} Hz"):
        AudioFormat("pcm16", rate_hz)


def test_an_unknown_encoding_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AudioError, match=r"'opus'.*pcm16, pcmu, pcma"):
        AudioFormat("opus", 16_000)  # type: ignore[arg-type]


def test_sound_needs_a_channel() -> None:
    with pytest.raises(AudioError, match="0 channels"):
        AudioFormat("pcm16", 16_000, channels=0)


@given(st.integers(0, 10_000_000), st.sampled_from([8000, 16_000, 22_050, 24_000, 44_100, 48_000]))
def test_samples_survive_the_way_through_milliseconds(samples: int, rate_hz: int) -> None:
    assert ms_to_samples(samples_to_ms(samples, rate_hz), rate_hz) == samples


def test_a_chunk_knows_where_it_ends_and_how_long_it_sounds() -> None:
    chunk = AudioChunk(np.zeros(800, np.float32), 16_000, start=1600)
    assert (chunk.end, chunk.duration_ms) == (2400, 50.0)


def test_a_format_knows_how_long_its_bytes_sound() -> None:
    assert AudioFormat("pcm16", 24_000, channels=2).duration_ms(bytes(9600)) == 100.0
    assert AudioFormat("pcmu", 8000).duration_ms(bytes(160)) == 20.0
