"""The loudspeaker steps back for somebody who may be speaking, and for nothing else."""

from __future__ import annotations

import numpy as np

from audio.ducking import HOLD_S, Suspicion

RATE_HZ = 24_000
BLOCK_MS = 20


def noise(level_db: float) -> np.ndarray:
    block = np.random.default_rng(0).standard_normal(RATE_HZ * BLOCK_MS // 1000, dtype=np.float32)
    return block * np.float32(10 ** (level_db / 20))


def after(*stretches: tuple[float, float]) -> Suspicion:
    """Levels in dB, each for so many seconds."""
    suspicion = Suspicion(RATE_HZ)
    for level_db, seconds in stretches:
        for _ in range(round(seconds * 1000 / BLOCK_MS)):
            suspicion.push(noise(level_db))
    return suspicion


def test_a_single_block_that_is_louder_than_an_echo_is_suspicious() -> None:
    assert not after((-65.0, 1.0)).raised
    assert after((-65.0, 1.0), (-40.0, 0.02)).raised


def test_a_suspicion_lasts_for_a_while_and_goes() -> None:
    assert after((-40.0, 0.02), (-70.0, HOLD_S - 0.04)).raised
    assert not after((-40.0, 0.02), (-70.0, HOLD_S)).raised


def test_a_room_that_is_noisy_is_known_for_it_and_a_voice_in_it_still_heard() -> None:
    assert not after((-40.0, 5.0)).raised
    assert after((-40.0, 5.0), (-25.0, 0.02)).raised


def test_digital_silence_is_nothing() -> None:
    suspicion = Suspicion(RATE_HZ)
    suspicion.push(np.zeros(480, np.float32))
    assert not suspicion.raised
