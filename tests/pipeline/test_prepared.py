"""What is made of models' files: there as a whole or not at all, and never older than what it was made of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.prepared import Form, Prepared

FORM = Form("doubled", 1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "a-model"
    folder.mkdir()
    (folder / "weights").write_text("abc")
    return folder


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(tmp_path / "prepared")


def doubled(folder: Path) -> None:
    (folder / "weights").write_text("aabbcc")


def test_what_was_made_is_found_again(model: Path, prepared: Prepared) -> None:
    assert prepared.find(model, FORM) is None
    made = prepared.keep(model, FORM, doubled)
    assert made is not None
    assert prepared.find(model, FORM) == made
    assert (made / "weights").read_text() == "aabbcc"


def test_what_is_there_is_not_made_again(model: Path, prepared: Prepared) -> None:
    made = prepared.keep(model, FORM, doubled)
    assert prepared.keep(model, FORM, lambda _: pytest.fail("made again")) == made


def test_a_changed_model_makes_it_stale_and_is_made_anew_in_its_place(model: Path, prepared: Prepared) -> None:
    made = prepared.keep(model, FORM, doubled)
    os.utime(model / "weights", ns=(1, 1))
    assert prepared.find(model, FORM) is None
    assert prepared.keep(model, FORM, doubled) == made
    assert prepared.find(model, FORM) == made


def test_another_version_of_the_form_makes_it_stale(model: Path, prepared: Prepared) -> None:
    prepared.keep(model, FORM, doubled)
    assert prepared.find(model, FORM._replace(version=2)) is None


def test_a_file_that_was_cut_short_is_as_good_as_none(model: Path, prepared: Prepared) -> None:
    made = prepared.keep(model, FORM, doubled)
    assert made is not None
    (made / "weights").write_text("aabb")
    assert prepared.find(model, FORM) is None


def test_a_failure_while_making_leaves_nothing(model: Path, prepared: Prepared) -> None:
    def fail(folder: Path) -> None:
        doubled(folder)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        prepared.keep(model, FORM, fail)
    assert prepared.find(model, FORM) is None
    assert prepared.bytes == 0


def test_a_disk_that_takes_nothing_is_told_and_costs_only_time(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a file").touch()
    assert Prepared(tmp_path / "a file" / "below").keep(model, FORM, doubled) is None
    assert "a-model starts slowly: nothing can be kept in" in caplog.text


def test_verifying_deletes_what_has_changed_since_and_names_it(model: Path, prepared: Prepared) -> None:
    made = prepared.keep(model, FORM, doubled)
    assert made is not None
    assert prepared.verify() == []
    (made / "weights").write_text("aabbcX")
    (told,) = prepared.verify()
    assert told.startswith("a-model.doubled: weights had a wrong SHA-256")
    assert prepared.find(model, FORM) is None
