"""Real models, loaded once for all tests that want them, and real sockets on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.backends.loader import Models, load_models
from pipeline.config import Config
from pipeline.store import Store
from server.voices.hibari import HibariVoice


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
