"""`echoic models`: the store from the command line."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from clients import models
from pipeline.ports import StoreError
from pipeline.prepared import Form
from pipeline.store import Store
from tests.pipeline.shelf import CONTENT, Closed, Folder, tiny

Command = Callable[..., int]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", {"tiny": tiny(Folder(CONTENT))})


@pytest.fixture
def models_command(store: Store) -> Command:
    parser = argparse.ArgumentParser()
    models.add_parser(parser.add_subparsers())
    return lambda *words: models.run(parser.parse_args(["models", *words]), store)


def test_list_tells_what_is_here_and_what_is_not(
    models_command: Command, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    models_command("list")
    assert "not fetched yet" in capsys.readouterr().out
    store.fetch("tiny")
    models_command("list")
    assert "here" in capsys.readouterr().out


def test_fetch_without_names_brings_every_model_and_shows_its_steps(
    models_command: Command, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert models_command("fetch") == 0
    shown = capsys.readouterr().out
    assert store.fault("tiny") is None
    assert all(step in shown for step in ("copying", "verifying", f"tiny: {store.path('tiny')}"))


def test_fetch_of_what_is_here_draws_no_bars(
    models_command: Command, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.fetch("tiny")
    models_command("fetch", "tiny")
    assert capsys.readouterr().out == f"tiny: {store.path('tiny')}\n"


def test_a_fetch_that_fails_is_an_error_of_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path, {"tiny": tiny(Closed("out of reach"))})
    with pytest.raises(StoreError, match="out of reach"):
        models.run(argparse.Namespace(verb="fetch", names=[]), store)


def test_path_prints_the_folder_alone_for_use_in_scripts(
    models_command: Command, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.fetch("tiny")
    models_command("path", "tiny")
    models_command("path")
    assert capsys.readouterr().out == f"{store.path('tiny')}\n{store.root}\n"


def test_verify_fails_for_a_spoilt_model_and_says_which_file(
    models_command: Command, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt = store.fetch("tiny") / "config.json"
    assert models_command("verify") == 0
    spoilt.write_bytes(spoilt.read_bytes()[::-1])
    assert models_command("verify") == 1
    assert "config.json had a wrong SHA-256" in capsys.readouterr().out


def test_what_was_made_for_quick_starts_is_told_and_verified(
    models_command: Command, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    made = store.prepared.keep(store.fetch("tiny"), Form("doubled", 1), lambda folder: mark(folder, "whole"))
    assert made is not None
    models_command("list")
    assert "Made of them for quick starts: " in capsys.readouterr().out
    mark(made, "spoil")
    assert models_command("verify", "tiny") == 0
    assert "deleted, and made again at the next start: tiny.doubled: mark" in capsys.readouterr().out
    assert store.prepared.bytes == 0


def mark(folder: Path, text: str) -> None:
    (folder / "mark").write_text(text)
