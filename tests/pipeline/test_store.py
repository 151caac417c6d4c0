"""The model store: complete or absent, whatever happens on the way."""

import multiprocessing
import re
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from pipeline.backends.convert import RECIPES
from pipeline.ports import InputError, StoreError
from pipeline.store import Entry, Store, embedded_entries
from tests.pipeline.shelf import CONFIG, CONTENT, WEIGHTS, Closed, Folder, PulledPlug, sha256, tiny

SPOILT = {**CONTENT, "weights.bin": b"x" * len(WEIGHTS)}


def store_of(root: Path, entry: Entry) -> Store:
    return Store(root / "store", {entry.name: entry})


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_fetched_model_has_its_files_and_nothing_else(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Folder(CONTENT)))
    assert content(store.fetch("tiny")) == CONTENT
    assert list(store.root.glob("[!.]*")) == [store.path("tiny")]


def test_a_model_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    store_of(tmp_path, tiny(Folder(CONTENT))).fetch("tiny")
    assert content(store_of(tmp_path, tiny(Closed("gone"))).fetch("tiny")) == CONTENT


def test_an_absent_model_names_the_command_that_brings_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="model tiny: not fetched yet; run: echoic models fetch tiny"):
        store_of(tmp_path, tiny()).path("tiny")


@pytest.mark.parametrize("call", ["path", "fetch", "verify", "fault"])
def test_an_unknown_model_is_refused_with_the_known_ones(tmp_path: Path, call: str) -> None:
    with pytest.raises(InputError, match="no model 'huge' in the store; it can hold tiny"):
        getattr(store_of(tmp_path, tiny()), call)("huge")


def test_a_wrong_hash_is_told_in_full_and_nothing_is_kept(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Folder(SPOILT)))
    expected, found = sha256(WEIGHTS), sha256(SPOILT["weights.bin"])
    told = rf"weights\.bin had a wrong SHA-256 and is deleted: expected {expected}, found {found}"
    with pytest.raises(StoreError, match=told):
        store.fetch("tiny")
    assert list(store.root.glob("**/*.bin")) == []


def test_the_next_source_is_asked_when_one_has_other_bytes_or_none(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Closed("no such package"), Folder(SPOILT), Folder(CONTENT)))
    assert content(store.fetch("tiny")) == CONTENT


def test_when_every_source_fails_one_line_tells_why_and_what_to_run(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Closed("index out of reach"), Closed("hub out of reach")))
    with pytest.raises(StoreError) as failure:
        store.fetch("tiny")
    assert str(failure.value) == (
        "model tiny cannot be fetched: index out of reach; hub out of reach; "
        "with a network connection, run: echoic models fetch tiny"
    )


def test_an_interrupted_fetch_leaves_nothing_half_and_can_be_repeated(tmp_path: Path) -> None:
    interrupted = store_of(tmp_path, tiny(PulledPlug()))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fetch("tiny")
    assert [path.name for path in interrupted.root.iterdir() if path.is_dir()] == []
    assert content(store_of(tmp_path, tiny(Folder(CONTENT))).fetch("tiny")) == CONTENT


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Folder(CONTENT)))
    left = store.root / ".fetching-tiny" / "fetched"
    left.mkdir(parents=True)
    (left / "weights.bin").write_bytes(b"half of")
    assert content(store.fetch("tiny")) == CONTENT
    assert not left.exists()


def test_verify_is_content_with_a_whole_model(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Folder(CONTENT)))
    store.fetch("tiny")
    store.verify("tiny")
    assert content(store.path("tiny")) == CONTENT


def test_verify_deletes_a_spoilt_file_and_tells_expected_and_found(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Folder(CONTENT)))
    spoilt = store.fetch("tiny") / "config.json"
    spoilt.write_bytes(CONFIG[::-1])
    hashes = f"expected {sha256(CONFIG)}, found {sha256(CONFIG[::-1])}"
    with pytest.raises(StoreError, match=rf"config\.json had a wrong SHA-256 and is deleted: {hashes}; run:"):
        store.verify("tiny")
    assert store.fault("tiny") == f"config.json has 0 of {len(CONFIG)} bytes"
    assert content(store.fetch("tiny")) == CONTENT


def test_a_truncated_file_is_found_without_reading_it(tmp_path: Path) -> None:
    store = store_of(tmp_path, tiny(Folder(CONTENT)))
    (store.fetch("tiny") / "weights.bin").write_bytes(WEIGHTS[:100])
    with pytest.raises(StoreError, match=r"weights\.bin has 100 of 5120 bytes; run: echoic models fetch tiny"):
        store.path("tiny")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"pins": 1}', b'{"files": [{}]}'])
def test_a_damaged_stamp_means_fetching_again(tmp_path: Path, damage: bytes) -> None:
    store = store_of(tmp_path, tiny(Folder(CONTENT)))
    (store.fetch("tiny") / ".echoic.json").write_bytes(damage)
    assert store.fault("tiny") == "not fetched yet"
    assert content(store.fetch("tiny")) == CONTENT


def test_other_pins_or_another_recipe_mean_fetching_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "shout", shout)
    store_of(tmp_path, tiny(Folder(CONTENT))).fetch("tiny")
    loud = store_of(tmp_path, tiny(Folder(CONTENT), recipe="shout"))
    assert loud.fault("tiny") == "not fetched yet"
    assert content(loud.fetch("tiny")) == {"loud.json": CONFIG.upper()}


def test_what_a_recipe_made_is_verified_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "shout", shout)
    store = store_of(tmp_path, tiny(Folder(CONTENT), recipe="shout"))
    made = store.fetch("tiny") / "loud.json"
    store.verify("tiny")
    made.write_bytes(CONFIG)
    with pytest.raises(StoreError, match=rf"loud\.json had a wrong SHA-256 .* found {sha256(CONFIG)}"):
        store.verify("tiny")


def test_a_recipe_that_fails_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "fail", fail)
    store = store_of(tmp_path, tiny(Folder(CONTENT), recipe="fail"))
    with pytest.raises(ZeroDivisionError):
        store.fetch("tiny")
    assert [path.name for path in store.root.iterdir() if path.is_dir()] == []


def test_two_processes_at_once_fetch_once_and_both_get_the_model(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(2)
    processes = [spawn.Process(target=fetch_in_a_process, args=(tmp_path, together)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "ledger").read_text() == "asked\n"


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file in the way")
    with pytest.raises(StoreError, match=r"the store cannot be written .*set ECHOIC_HOME to another folder"):
        store_of(tmp_path, tiny(Folder(CONTENT))).fetch("tiny")


def test_progress_names_each_step(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    store_of(tmp_path, tiny(Folder(CONTENT))).fetch("tiny", lambda *step: steps.append(step))
    total = len(WEIGHTS) + len(CONFIG)
    assert steps[-2:] == [("verifying", len(WEIGHTS), total), ("verifying", total, total)]


def test_the_store_lies_where_echoic_home_says_or_in_the_cache_folder(tmp_path: Path) -> None:
    assert Store.default({"ECHOIC_HOME": str(tmp_path)}).root == tmp_path / "models"
    assert "echoic" in Store.default({}).root.parts


def test_every_embedded_file_is_pinned_by_hash_and_every_package_by_version() -> None:
    for entry in embedded_entries().values():
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0 for file in entry.files)
        assert entry.recipe is None or entry.recipe in RECIPES
        for source in entry.sources:
            assert all("==" in package.requirement for package in getattr(source, "packages", ()))
            assert re.fullmatch("[0-9a-f]{40}", getattr(source, "revision", "0" * 40))


@pytest.mark.models
def test_the_embedded_models_are_as_pinned_to_the_last_byte(store: Store) -> None:
    for name in store.names():
        store.verify(name)


def shout(fetched: Path, made: Path) -> None:
    (made / "loud.json").write_bytes((fetched / "config.json").read_bytes().upper())


def fail(_fetched: Path, made: Path) -> None:
    (made / "half.json").write_bytes(b"{")
    raise ZeroDivisionError


def fetch_in_a_process(root: Path, together: Barrier) -> None:
    store = store_of(root, tiny(Folder(CONTENT, ledger=root / "ledger")))
    together.wait()
    assert content(store.fetch("tiny")) == CONTENT
