"""``echoic guesses``: what the guesses of some replies are worth on others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clients.cli import main
from clients.guesses import tokens_a_step
from pipeline.backends.guesses import NO_GUESSES, Guesses

REPLY = [1, 2, 3, 10, 11, 12, 13]


def test_without_guesses_a_step_makes_one_token() -> None:
    assert tokens_a_step(NO_GUESSES, [REPLY]) == 1


def test_with_right_guesses_a_step_makes_many() -> None:
    assert tokens_a_step(Guesses.counted([REPLY, REPLY], 7), [REPLY]) == 4


def test_a_wrong_guess_costs_no_token() -> None:
    assert tokens_a_step(Guesses.counted([REPLY, REPLY], 7), [[1, 2, 3, 10, 20, 21]]) == 1.5


@pytest.mark.models
def test_replies_to_dialogues_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [{"role": "user", "text": "Hello there."}, {"role": "assistant", "text": "Hello."}]
    (tmp_path / "talks.jsonl").write_text((json.dumps({"turns": turns}) + "\n") * 6)
    out = tmp_path / "guesses.npz"
    assert main(["guesses", "--data", str(tmp_path / "talks.jsonl"), "--out", str(out), "--replies", "6"]) == 0
    assert len(Guesses.of(out, 3)) > 0
    assert float(capsys.readouterr().out.split(" tokens a step")[0].split()[-1]) > 1
