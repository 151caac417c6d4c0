"""The echo's path: which 10 ms of the loudspeaker belong to which of the microphone, and what is left of it."""

from __future__ import annotations

import numpy as np
import pytest

from audio.echo import LEAD_MS, EchoPath, Moment, WebRtcCanceller
from audio.format import AudioError, Samples

RATE_HZ = 24_000
TICK_MS = 20


class Subtraction:
    """A canceller that knows the echo is the sound itself, ``LEAD_MS`` later."""

    def __init__(self) -> None:
        self._lead = np.zeros(round(LEAD_MS * RATE_HZ / 1000), np.float32)

    def process(self, heard: Samples, reference: Samples) -> Samples:
        due, self._lead = np.split(np.concatenate((self._lead, reference)), [len(reference)])
        return heard - due


def noise(seconds: float, rate_hz: int = RATE_HZ) -> Samples:
    return np.random.default_rng(1).standard_normal(round(seconds * rate_hz)).astype(np.float32) * 0.1


def through(path: EchoPath, played: Samples, latency_ms: float, begins_at: float = 7.0) -> Samples:
    """Play and hear in ticks: what is given to the device is in the air, and in the microphone, later."""
    latency = round(latency_ms * RATE_HZ / 1000)
    heard = np.concatenate((np.zeros(latency, np.float32), played))[: len(played)]
    tick, out = RATE_HZ * TICK_MS // 1000, []
    for at in range(0, len(played), tick):
        captured = Moment(at, begins_at + at / RATE_HZ)
        rendered = Moment(at, begins_at + (at + latency) / RATE_HZ)
        out.append(path.push(heard[at : at + tick], captured, played[at : at + tick], rendered))
    return np.concatenate(out)


@pytest.mark.parametrize("latency_ms", [60, 100, 250])
def test_the_reference_is_the_sound_that_is_in_the_air(latency_ms: float) -> None:
    path = EchoPath(RATE_HZ, RATE_HZ, RATE_HZ, Subtraction())
    left = through(path, noise(2.0), latency_ms)
    assert np.abs(left[RATE_HZ:]).max() < 1e-6
    assert path.delay_ms == pytest.approx(latency_ms, abs=TICK_MS + 1)


def test_a_device_that_loses_time_is_measured_again() -> None:
    path = EchoPath(RATE_HZ, RATE_HZ, RATE_HZ, Subtraction())
    through(path, noise(1.0), 60)
    left = through(path, noise(2.0), 60, begins_at=7.5)  # half a second of both is missing
    assert len(left) == 2 * RATE_HZ


def test_without_a_canceller_the_sound_is_only_resampled() -> None:
    path = EchoPath(48_000, 44_100, RATE_HZ, None)
    out = path.push(noise(1.0, 48_000), Moment(0, 0.0), noise(1.0, 44_100), Moment(0, 0.0))
    assert len(out) == pytest.approx(RATE_HZ, abs=RATE_HZ * 0.03)
    assert len(out) % 240 == 0


def test_webrtc_takes_the_echo_out_and_leaves_silence() -> None:
    pytest.importorskip("livekit", reason="livekit is not installed: pip install 'echoic[mic]'")
    path = EchoPath(RATE_HZ, RATE_HZ, RATE_HZ, WebRtcCanceller(RATE_HZ))
    played = noise(4.0) * (np.sin(np.arange(4 * RATE_HZ) / 3000) > 0)  # comes and goes, as speech does
    left = through(path, played.astype(np.float32), 60)
    assert np.std(left[2 * RATE_HZ :]) < 0.05 * np.std(played)


def test_a_missing_library_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "livekit.rtc.apm", None)
    with pytest.raises(AudioError, match="--no-echo-cancellation"):
        WebRtcCanceller(RATE_HZ)
