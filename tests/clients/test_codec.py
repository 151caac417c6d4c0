from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from clients import codec
from codec.dialogues import SYSTEMS
from codec.fit import Frozen
from codec.recall import recall
from pipeline.ports import InputError
from tests.codec import tiny


@pytest.fixture(scope="module")
def base() -> Frozen:
    every = [*recall(24, "train", 0), *recall(12, "test", 1)]
    texts = [turn.text for one in every for turn in one.segments] + [
        f"{one.question} {one.reply}" for one in every
    ]
    return tiny.frozen([*texts, *SYSTEMS, "Hello. Yes. 7 of them?"])


@pytest.fixture
def command(base: Frozen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Runs `echoic codec ...` against the miniature model, in a folder of its own."""
    monkeypatch.setattr("codec.fit.load_frozen", lambda *_, **__: base)
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    codec.add_parser(parser.add_subparsers(dest="command"))
    return lambda *arguments: codec.run(parser.parse_args(["codec", *arguments]))


TRAIN = (
    "train",
    "--out",
    "a.safetensors",
    "--recall",
    "24",
    "--epochs",
    "1",
    "--layer",
    "2",
    "--ratio",
    "4",
    "--threads",
    "1",
)


def test_a_codec_is_trained_judged_and_inspected(command, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    assert command(*TRAIN) == 0
    assert (
        command("eval", "a.safetensors", "--recall", "12", "--json", "a.json", "--plot", "a.png", "--record") == 0
    )
    figures = json.loads(Path("a.json").read_text())["a"]
    assert {"state", "wrong state", "mean state", "text, last 16 tokens"} <= set(figures["recovery"]["recall"])
    assert set(figures["ranking"]["recall"]) == {"none", "state", "full text", "examples"}
    assert Path("a.png").stat().st_size > 1_000
    capsys.readouterr()
    assert command("inspect", "a.safetensors") == 0
    shown = capsys.readouterr().out
    assert "LlamaForCausalLM" in shown
    assert '"figures"' in shown


def test_the_number_of_slots_can_be_swept_without_training_again(command) -> None:  # type: ignore[no-untyped-def]
    command(*TRAIN)
    sweep = ("--slots", "2", "--slots", "6", "--quick", "--json", "a.json")
    assert command("eval", "a.safetensors", "--recall", "6", *sweep) == 0
    figures = json.loads(Path("a.json").read_text())
    assert figures["a, 2 slots"]["bytes"] < figures["a, 6 slots"]["bytes"]


def test_nothing_to_learn_from_is_said(command) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"--data FILE\.jsonl or --recall N"):
        command("train", "--out", "a.safetensors", "--recall", "0")


def test_a_missing_codec_is_named(command) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"gone\.safetensors is not a codec"):
        command("inspect", "gone.safetensors")
