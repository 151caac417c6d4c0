"""Fixtures that every room's tests share."""

import asyncio
import os

import pytest

from pipeline.store import Store


@pytest.fixture(autouse=True, scope="session")
def no_stray_event_loop() -> None:
    """Keep looptime's plugin from making, and never closing, an event loop for the first test that needs none."""
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def store() -> Store:
    """The store with the embedded models; `make test` fetches them before the tests run."""
    return Store.default(os.environ)
