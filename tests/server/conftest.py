"""Real models, loaded once for all tests that want them, and real sockets on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from audio.format import AudioChunk
from audio.resample import resample
from audio.wav import read_recording, write_recording
from clients.demo import READINGS
from pipeline.backends.loader import Models, load_models
from pipeline.config import Config
from pipeline.store import Store
from server.voices.hibari import HibariVoice

RATE_HZ = 24_000


@pytest.fixture(scope="session")
def models(store: Store) -> Iterator[Models]:
    loaded = load_models(Config(), store)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def voice() -> Iterator[HibariVoice]:
    loaded = HibariVoice()
    yield loaded
    loaded.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate for this machine, and its key."""
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 2"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="session")
def readings(store: Store, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two phrases read by people, each with half a second of silence in front, at 24 kHz."""
    folder = tmp_path_factory.mktemp("readings")
    for name, start_s, end_s in READINGS:
        whole = read_recording(store.path("demo-recordings") / name)
        said = whole.samples[round(start_s * whole.rate_hz) : round(end_s * whole.rate_hz)]
        sound = resample(np.concatenate([np.zeros(whole.rate_hz // 2, np.float32), said]), whole.rate_hz, RATE_HZ)
        write_recording(folder / name, AudioChunk(sound, RATE_HZ))
    return [folder / name for name, _, _ in READINGS]
