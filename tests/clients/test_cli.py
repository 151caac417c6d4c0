"""The command line: what it costs to start, and how it fails."""

from __future__ import annotations

import socket
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from clients import cli, replay
from clients.cli import main
from clients.options import config_from
from pipeline.ports import EchoicError, InputError


def options(**given: object) -> Namespace:
    return Namespace(
        **{"asr": None, "llm": None, "voice": None, "speech": None, "config": None, "set": [], **given}
    )


def heavy_libraries_loaded_by(*words: str) -> str:
    """As a list, written out by a fresh process in which the command ran and ended."""
    heavy = ("torch", "transformers", "openai", "matplotlib", "jiwer", "faster_whisper", "hibari", "onnxruntime")
    script = f"""
import sys, clients.cli
try:
    sys.exit(clients.cli.main({words}))
except SystemExit:
    print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_help_loads_no_model_library() -> None:
    assert heavy_libraries_loaded_by("--help") == "[]"


@pytest.mark.parametrize("refused", ["port", "host", "cert"])
def test_what_cannot_be_served_is_told_before_anything_is_loaded(refused: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = {"port": str(taken.getsockname()[1]), "host": "0.0.0.0", "cert": str(tmp_path / "none.pem")}
        assert heavy_libraries_loaded_by("serve", f"--{refused}", given[refused]) == "[]"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.startswith("echoic ")


@pytest.mark.parametrize(
    ("raised", "code"),
    [(InputError("no such voice"), 2), (EchoicError("it broke"), 1), (KeyboardInterrupt(), 130)],
)
def test_a_failure_is_one_line_and_an_exit_code(
    raised: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_args: Namespace) -> int:
        raise raised

    monkeypatch.setattr(replay, "run", fail)
    assert main(["replay", "x"]) == code
    assert capsys.readouterr().err == (f"echoic: {raised}\n" if str(raised) else "")


def test_a_missing_recording_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "missing.wav"
    assert main(["replay", str(missing)]) == 2
    assert f"skipped {missing}: there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_an_unknown_setting_is_named_by_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--set", "llm.tokens=3"]) == 2
    assert "llm.tokens" in capsys.readouterr().err


def test_model_options_become_settings() -> None:
    config = config_from(options(asr="small", voice="emma", set=["llm.max_tokens=9", "turn.drafts=false"]))
    assert (config.asr.model, config.speech.voice, config.llm.max_tokens) == ("small", "emma", 9)
    assert config.turn.drafts is False


def test_a_named_option_wins_over_set_and_set_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "echoic.toml"
    path.write_text('[llm]\nmodel = "file"\nmax_tokens = 5\n[asr]\nmodel = "file"\n')
    config = config_from(options(config=path, asr="option", set=["asr.model=set", "llm.model=set"]))
    assert (config.asr.model, config.llm.model, config.llm.max_tokens) == ("option", "set", 5)


@pytest.mark.parametrize("setting", ["llm.max_tokens", "max_tokens=3", "=3"])
def test_a_setting_that_is_none_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match="--set"):
        config_from(options(set=[setting]))


def test_every_command_has_help() -> None:
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
