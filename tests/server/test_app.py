"""The server as a whole: what it refuses, and when."""

from __future__ import annotations

import socket

import pytest

from pipeline.config import Config, load_config
from pipeline.ports import InputError, StoreError
from pipeline.store import Store
from server.app import Server


async def test_a_taken_port_is_told_before_any_model_is_loaded(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} .* is in use"):
            await Server(load_config(overrides={"server.port": port}), store=Store(tmp_path)).__aenter__()


async def test_a_missing_model_names_the_command_that_fetches_it(tmp_path) -> None:
    with pytest.raises(StoreError, match="echoic models fetch"):
        await Server(Config(), store=Store(tmp_path)).__aenter__()


def test_a_port_that_cannot_be_is_a_clear_error() -> None:
    with pytest.raises(InputError, match=r"server\.port"):
        load_config(overrides={"server.port": 99_999})


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(InputError, match=r"turn\.patience"):
        load_config(overrides={"turn.patience": 1})
