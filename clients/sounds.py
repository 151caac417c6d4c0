"""Sounds in which nobody speaks, generated: the same samples every time they are asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.ports import RATE_HZ, Samples

PIECE_S = 12.0
LOUDEST_DB, FAINTEST_DB = -6.0, -40.0  # peaks, relative to full scale
MAJOR = (0, 4, 7)  # semitones above the root
PENTATONIC = (0, 2, 4, 7, 9, 12)
MIDDLE_C_HZ = 261.63

Track = NDArray[np.float64]
Generate = Callable[[np.random.Generator, int], Track]


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """A sound, float32 mono ``[samples]`` at 16 kHz, and what it is."""

    name: str
    samples: Samples

    @property
    def duration_s(self) -> float:
        """How long it sounds."""
        return len(self.samples) / RATE_HZ


def without_speech(seconds: float, recordings: Sequence[Sound] = ()) -> Iterator[Sound]:
    """So many seconds: the recordings, then generated sounds, round after round; the last sound is cut short.

    No two rounds have the same noise, the same tune or the same loudness. The recordings come first because they
    are the harder ones, and an ear gets harder of hearing the longer it hears noise.
    """
    left = round(seconds * RATE_HZ)
    for number in itertools.count():
        for sound in itertools.chain(recordings, _generated(number)):
            if left <= 0:
                return
            yield Sound(sound.name, sound.samples[:left])
            left -= len(sound.samples)


def _generated(number: int) -> Iterator[Sound]:
    for index, (name, generate) in enumerate(GENERATORS.items()):
        rng = np.random.default_rng((number, index))
        track = generate(rng, round(PIECE_S * RATE_HZ))
        level = 10 ** (rng.uniform(FAINTEST_DB, LOUDEST_DB) / 20)
        peak = np.abs(track).max(initial=0.0)
        yield Sound(name, (track * (level / peak) if peak else track).astype(np.float32))


# --- noise ---


def _silence(_rng: np.random.Generator, length: int) -> Track:
    return np.zeros(length)


def _coloured(slope: float) -> Generate:
    """Noise whose power falls with the frequency to the power of ``slope``: 0 white, 1 pink, 2 brown."""

    def generate(rng: np.random.Generator, length: int) -> Track:
        spectrum = np.fft.rfft(rng.standard_normal(length))
        spectrum[0] = 0
        spectrum[1:] /= np.arange(1, len(spectrum)) ** (slope / 2)
        return np.fft.irfft(spectrum, length)

    return generate


def _hum(rng: np.random.Generator, length: int) -> Track:
    """A mains transformer: the net's frequency and its overtones."""
    mains_hz, time = rng.choice((50, 60)), np.arange(length) / RATE_HZ
    track = np.zeros(length)
    for overtone in range(1, 9):
        track += np.sin(2 * np.pi * (mains_hz * overtone * time + rng.random())) / overtone
    return track


def _clicks(rng: np.random.Generator, length: int) -> Track:
    track = np.zeros(length)
    for at in rng.integers(0, length, 3 * length // RATE_HZ):
        _add(track, at, _burst(rng, 0.002))
    return track


def _typing(rng: np.random.Generator, length: int) -> Track:
    """Bursts of keystrokes, each a press and a quieter release, with pauses between the bursts."""
    track, at = np.zeros(length), 0.0
    while at * RATE_HZ < length:
        for _ in range(rng.integers(4, 25)):
            _add(track, round(at * RATE_HZ), _burst(rng, 0.012))
            _add(track, round((at + 0.06) * RATE_HZ), 0.4 * _burst(rng, 0.008))
            at += rng.uniform(0.09, 0.22)
        at += rng.uniform(0.4, 1.5)
    return track


# --- music ---


def _chords(rng: np.random.Generator, length: int) -> Track:
    """Four chords in a circle, a second each."""
    track, key = np.zeros(length), int(rng.integers(-12, 1))
    for beat, root in zip(range(0, length, RATE_HZ), itertools.cycle((0, 7, 9, 5)), strict=False):
        for interval in MAJOR:
            _add(track, beat, _note(key + root + interval, 1.0, decay_s=1.5))
    return track


def _melody(rng: np.random.Generator, length: int) -> Track:
    track, at, key = np.zeros(length), 0, int(rng.integers(-5, 8))
    while at < length:
        seconds = rng.choice((0.2, 0.4, 0.8))
        _add(track, at, _note(key + float(rng.choice(PENTATONIC)), seconds, decay_s=0.3))
        at += round(seconds * RATE_HZ)
    return track


def _drums(rng: np.random.Generator, length: int) -> Track:
    """Bass drum, snare and hi-hat in four-four time."""
    track, step = np.zeros(length), round(RATE_HZ * 30 / rng.integers(90, 140))
    for number, at in enumerate(range(0, length, step)):
        _add(track, at, 0.3 * _burst(rng, 0.02))
        if number % 4 == 0:
            time = np.arange(round(0.25 * RATE_HZ)) / RATE_HZ
            _add(track, at, np.sin(2 * np.pi * (50 * time - 4 * np.exp(-25 * time))) * np.exp(-time / 0.08))
        elif number % 4 == 2:
            _add(track, at, 0.7 * _burst(rng, 0.08))
    return track


def _band(rng: np.random.Generator, length: int) -> Track:
    return _chords(rng, length) + 1.5 * _melody(rng, length) + 2 * _drums(rng, length)


def _note(semitones: float, seconds: float, decay_s: float) -> Track:
    """A plucked string, so far above middle C."""
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    hz = MIDDLE_C_HZ * 2 ** (semitones / 12)
    tone = sum(np.sin(2 * np.pi * hz * overtone * time) / overtone**2 for overtone in (1, 2, 3, 4))
    fade = np.minimum(1, np.minimum(time, time[::-1]) / 0.005)  # without it the ends of the note would click
    plucked: Track = tone * np.exp(-time / decay_s) * fade
    return plucked


def _burst(rng: np.random.Generator, decay_s: float) -> Track:
    """Noise that dies away."""
    length = round(5 * decay_s * RATE_HZ)
    burst: Track = rng.standard_normal(length) * np.exp(-np.arange(length) / (decay_s * RATE_HZ))
    return burst


def _add(track: Track, at: int, sound: Track) -> None:
    piece = sound[: max(len(track) - at, 0)]
    track[at : at + len(piece)] += piece


GENERATORS: Mapping[str, Generate] = {
    "digital silence": _silence,
    "white noise": _coloured(0),
    "pink noise": _coloured(1),
    "brown noise": _coloured(2),
    "mains hum": _hum,
    "clicks": _clicks,
    "typing": _typing,
    "chords": _chords,
    "melody": _melody,
    "drums": _drums,
    "band": _band,
}
