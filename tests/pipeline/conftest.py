"""The ear's models, loaded once for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.backends.silero import SileroModel
from pipeline.backends.whisper import WhisperRecogniser
from pipeline.store import Store


@pytest.fixture(scope="session")
def vad() -> Iterator[SileroModel]:
    model = SileroModel()
    yield model
    model.close()


@pytest.fixture(scope="session")
def recogniser(store: Store) -> Iterator[WhisperRecogniser]:
    model = WhisperRecogniser(store.path("whisper-base"))
    yield model
    model.close()
