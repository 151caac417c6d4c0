"""Real models, loaded once for all tests that want them, and real sockets on loopback."""

from __future__ import annotations

from collections.abc import Iterator

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
