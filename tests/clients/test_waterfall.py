"""The picture of where the time went."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.latency import PARTS
from clients.waterfall import COLOURS, draw
from pipeline.ports import InputError
from tests.clients.outcomes import answered, unanswered


def test_a_picture_is_drawn_of_all_variants(tmp_path: Path) -> None:
    path = tmp_path / "new" / "w.png"
    draw({"drafts": [answered(400, "x"), unanswered("y")], "sequential": [answered(3000, "y")]}, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_timed_is_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        draw({"drafts": [unanswered()]}, tmp_path / "w.png")


def test_a_picture_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the picture"):
        draw({"drafts": [answered()]}, tmp_path)


def test_every_part_has_its_own_colour() -> None:
    assert len({COLOURS[part] for part in PARTS}) == len(PARTS)
