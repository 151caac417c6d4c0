"""The streaming resampler: pieces equal the whole, the lag is small and known, the sound stays itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.format import AudioError, Samples, samples_to_ms
from audio.resample import StreamResampler, resample
from tests.audio.strategies import cuts, noise, pieces_of

RATES = [(24_000, 16_000), (16_000, 24_000), (48_000, 16_000), (44_100, 16_000), (8000, 16_000), (24_000, 8000)]


def tone(hz: float, rate_hz: int, seconds: float = 1.0) -> Samples:
    return np.sin(2 * np.pi * hz * np.arange(int(rate_hz * seconds)) / rate_hz).astype(np.float32) * 0.5


def level_db(sound: Samples) -> float:
    return float(10 * np.log10(np.mean(sound[len(sound) // 4 : -len(sound) // 4] ** 2) * 2 / 0.25 + 1e-20))


@given(st.integers(0, 9000), cuts, st.sampled_from([*RATES, (16_000, 16_000)]))
def test_pieces_equal_the_whole_bit_for_bit(samples: int, sizes: list[int], rates: tuple[int, int]) -> None:
    sound, stream = noise(samples), StreamResampler(*rates)
    parts = [stream.push(piece) for piece in pieces_of(sound, sizes)]
    assert np.array_equal(np.concatenate([*parts, stream.finish()]), resample(sound, *rates))


@pytest.mark.parametrize("rates", RATES)
def test_a_second_stays_a_second(rates: tuple[int, int]) -> None:
    assert len(resample(noise(rates[0]), *rates)) == rates[1]


@pytest.mark.parametrize(
    ("from_hz", "to_hz", "lag_ms"), [(24_000, 16_000, 10), (48_000, 16_000, 12.5), (8000, 16_000, 30)]
)
def test_the_lag_is_constant_and_as_documented(from_hz: int, to_hz: int, lag_ms: float) -> None:
    stream, lags_ms = StreamResampler(from_hz, 16_000), []
    for piece in np.split(noise(from_hz), 50):
        stream.push(piece)
        lags_ms.append(samples_to_ms(stream.held_samples, 16_000))
    assert lags_ms[5:] == pytest.approx([lag_ms] * 45, abs=0.1)


@pytest.mark.parametrize("rates", RATES)
def test_held_samples_are_the_ones_that_finish_brings(rates: tuple[int, int]) -> None:
    stream = StreamResampler(*rates)
    stream.push(noise(5001))
    held = stream.held_samples
    assert len(stream.finish()) == pytest.approx(held, abs=1)
    assert stream.held_samples == 0


def test_after_finish_a_new_stream_begins() -> None:
    stream, sound = StreamResampler(24_000, 16_000), noise(3000)
    first = np.concatenate((stream.push(sound), stream.finish()))
    assert np.array_equal(np.concatenate((stream.push(sound), stream.finish())), first)


@pytest.mark.parametrize("rates", RATES)
def test_a_tone_keeps_its_pitch_and_its_level(rates: tuple[int, int]) -> None:
    sound = resample(tone(1000, rates[0]), *rates)
    assert np.argmax(np.abs(np.fft.rfft(sound))) == 1000
    assert level_db(sound) == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("hz", [9000, 10_000, 11_500])
def test_what_the_lower_rate_cannot_hold_is_gone_not_folded_back(hz: float) -> None:
    assert level_db(resample(tone(hz, 24_000), 24_000, 16_000)) < -90


def test_consonants_up_to_7_khz_keep_their_level() -> None:
    assert level_db(resample(tone(7000, 24_000), 24_000, 16_000)) == pytest.approx(0, abs=0.05)


def test_equal_rates_hold_nothing_back() -> None:
    stream, sound = StreamResampler(16_000, 16_000), noise(100)
    assert np.array_equal(stream.push(sound), sound)
    assert (stream.held_samples, len(stream.finish())) == (0, 0)


@pytest.mark.parametrize("rates", [(1, 16_000), (16_000, 768_000)])
def test_a_rate_that_no_speech_has_is_refused(rates: tuple[int, int]) -> None:
    with pytest.raises(AudioError, match=r"outside 4000\.\.384000 Hz"):
        StreamResampler(*rates)
