from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from clients import codec
from codec.binding import load
from codec.dialogues import SYSTEMS, Example, Turn
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
    assert set(figures["ranking"]["recall"]) == {
        "none",
        "full text",
        "state",
        "wrong state",
        "gained by the state",
    }
    assert Path("a.png").stat().st_size > 1_000
    capsys.readouterr()
    assert command("inspect", "a.safetensors") == 0
    shown = capsys.readouterr().out
    assert "LlamaForCausalLM" in shown
    assert '"figures"' in shown


def test_a_codec_that_is_trained_further_tells_what_came_before(command) -> None:  # type: ignore[no-untyped-def]
    command(*TRAIN)
    assert (
        command(*TRAIN, "--start", "a.safetensors", "--work", "on", "--out", "b.safetensors", "--rate", "1e-3")
        == 0
    )
    before, after = load(Path("a.safetensors")), load(Path("b.safetensors"))
    assert after.card["recipe"]["start"] == before.fingerprint.hex()
    assert after.card["before"]["recipe"] == before.card["recipe"]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_codec_trains_and_judges(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Its own lines, with a miniature budget, on the miniature model."""
    for name in ("sgd_train", "tm4_train", "sgd_dev"):
        (tmp_path / f"{name}.jsonl").write_text("".join(map(dialogue, recall(24, "train", 0))))
    small = ("TRAIN=--recall 24 --steps 2 --layer 2 --ratio 4", "EVAL=--recall 12 --examples 4")
    make = ["make", "-n", "-C", str(Path(codec.__file__).parents[1]), "codec", f"DIALOGUES={tmp_path}", *small]
    lines = subprocess.run(make, check=True, capture_output=True, text=True).stdout
    commands = re.findall(r"echoic codec (.+)", lines)
    assert [command(*shlex.split(line)) for line in commands] == [0, 0]
    assert json.loads(Path("out/codec/eval.json").read_text())["smollm2-135m-instruct"]["recovery"]["sgd_dev"]


def dialogue(example: Example) -> str:
    """An example as a line of a data file."""
    last = (Turn("user", example.question), Turn("assistant", example.reply))
    turns = [{"role": turn.role, "text": turn.text} for turn in (*example.segments, *last)]
    return json.dumps({"turns": turns}) + "\n"


def test_slots_and_their_sparsity_can_be_swept_without_training_again(command) -> None:  # type: ignore[no-untyped-def]
    command(*TRAIN)
    sweep = ("--slots", "2", "--slots", "6", "--keep", "1", "--keep", "0.5", "--quick", "--json", "a.json")
    assert command("eval", "a.safetensors", "--recall", "6", *sweep) == 0
    figures = json.loads(Path("a.json").read_text())
    assert figures["a, 2 slots, keep 1"]["bytes"] < figures["a, 6 slots, keep 1"]["bytes"]
    assert figures["a, 6 slots, keep 1"]["zeros"] < 0.1 < 0.5 <= figures["a, 6 slots, keep 0.5"]["zeros"]
    with pytest.raises(InputError, match="leave out --slots and --keep"):
        command("eval", "a.safetensors", "--recall", "6", "--slots", "2", "--record")


def test_nothing_to_learn_from_is_said(command) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"--data FILE\.jsonl or --recall N"):
        command("train", "--out", "a.safetensors", "--recall", "0")


def test_a_missing_codec_is_named(command) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"gone\.safetensors is not a codec"):
        command("inspect", "gone.safetensors")
