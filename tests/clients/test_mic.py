"""``echoic mic`` on virtual devices, as its own process: heard, answered, unplugged, on a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from audio.format import AudioChunk, Samples
from audio.resample import resample
from audio.wav import read_recording, write_recording
from clients.accuracy import word_errors
from pipeline.backends.loader import load_models
from pipeline.config import Config
from pipeline.ports import RATE_HZ as HEARD_HZ
from pipeline.store import Store
from server.voices.hibari import HibariVoice
from tests.clients.pulse import Pulse, missing, pulse_server, wait_until
from tests.clients.scripted import RATE_HZ, Script, server_in_thread, tone

ROOT = Path(__file__).parents[2]
QUESTION = "What is the capital of France?"

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"no virtual sound devices: {missing()}"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def pulse(tmp_path: Path) -> Iterator[Pulse]:
    with pulse_server(tmp_path) as server:
        yield server


@pytest.fixture
def script() -> Script:
    return Script(transcript="how are you", reply="Fine, thank you.")


@pytest.fixture
def server(script: Script) -> Iterator[str]:
    with server_in_thread(script) as url:
        yield url


class Mic:
    """``echoic mic`` as a process of its own, whose output is read line by line."""

    def __init__(self, pulse: Pulse, *options: str) -> None:
        command = [sys.executable, "-m", "clients.cli", "mic", *options]
        env = {**pulse.env, "PYTHONUNBUFFERED": "1"}
        self.process = pulse.start(
            command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, beginning: str, patience_s: float = 20.0, times: int = 1) -> str:
        """The line that begins so, the nth of them."""
        wait_until(lambda: len(self._begin(beginning)) >= times, f"“{beginning}” in {self.lines}", patience_s)
        return self._begin(beginning)[times - 1]

    def end(self) -> int:
        """Interrupt it, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(20)
        self._reader.join()
        return code

    def _begin(self, beginning: str) -> list[str]:
        return [line for line in self.lines if line.startswith(beginning)]

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            self.lines.extend(line.rstrip("\n") for line in output)


@pytest.fixture
def spoken(tmp_path: Path) -> Path:
    """Half a second of a tone, which is speech to the scripted server."""
    write_recording(tmp_path / "spoken.wav", AudioChunk(tone(0.5), RATE_HZ))
    return tmp_path / "spoken.wav"


async def say(text: str, file: Path) -> Path:
    voice = HibariVoice()
    try:
        speech = await voice.speak(text)
    finally:
        voice.close()
    write_recording(file, AudioChunk(speech.samples, speech.rate_hz))
    return file


@pytest.mark.models
async def test_a_question_into_the_microphone_is_answered_by_the_loudspeaker(
    pulse: Pulse, store: Store, tmp_path: Path
) -> None:
    question, answer = await say(QUESTION, tmp_path / "question.wav"), tmp_path / "answer.wav"
    mic = Mic(pulse, "--plain")
    await asyncio.to_thread(mic.wait_for, "(listening", 120)
    recorder = pulse.record(answer)
    await asyncio.to_thread(pulse.play, question)
    reply = (await asyncio.to_thread(mic.wait_for, "echoic: ", 60)).removeprefix("echoic: ")
    recorder.terminate()
    recorder.wait()
    assert mic.end() == 130
    assert word_errors(QUESTION, mic.wait_for("you: ").removeprefix("you: ")).errors <= 1
    models = load_models(Config(), store)
    heard = await models.recogniser.recognise_padded(resampled(answer))
    models.close()
    alike = SequenceMatcher(None, letters(reply), letters(heard.text)).ratio()
    assert alike > 0.8, f"“{reply}” was heard as “{heard.text}”"


def test_devices_that_are_unplugged_in_mid_talk_are_missed_and_found_again(
    pulse: Pulse, script: Script, server: str, spoken: Path
) -> None:
    mic = Mic(pulse, "--plain", "--url", server)
    mic.wait_for("(listening")
    pulse.play(spoken)
    mic.wait_for("echoic: Fine")
    pulse.unplug("room")
    pulse.unplug("speaker")
    mic.wait_for("(the ")
    pulse.plug_in()
    mic.wait_for("(now using “default” and “default”)")
    pulse.play(spoken)
    mic.wait_for("echoic: Fine", times=2)
    assert mic.end() == 130
    assert len(script.sessions) == 1


def test_the_list_of_devices_names_the_virtual_ones(pulse: Pulse) -> None:
    mic = Mic(pulse, "--list-devices")
    assert mic.process.wait(30) == 0
    wait_until(lambda: any("pulse" in line for line in mic.lines), "a device")


class Terminal:
    """``echoic mic`` on a pseudo-terminal."""

    def __init__(self, pulse: Pulse, *options: str) -> None:
        self._own, self.theirs = pty.openpty()
        self.settings = termios.tcgetattr(self.theirs)
        command = [sys.executable, "-m", "clients.cli", "mic", *options]
        env = {**pulse.env, "TERM": "xterm-256color", "COLUMNS": "100"}
        ends = dict.fromkeys(("stdin", "stdout", "stderr"), self.theirs)
        self.process = pulse.start(
            command, cwd=ROOT, env=env, **ends, start_new_session=True, preexec_fn=take_terminal
        )
        self.shown = ""

    def wait_for(self, text: str, patience_s: float = 20.0) -> None:
        """Read the screen until the text was shown."""
        give_up_at = time.monotonic() + patience_s
        while text not in self.plain:
            assert time.monotonic() < give_up_at, f"“{text}” was not shown:\n{self.plain[-2000:]}"
            self.read()

    def press(self, keys: str) -> None:
        self.shown = ""
        os.write(self._own, keys.encode())

    def end(self) -> int:
        """Read until the process has ended."""
        wait_until(lambda: not self.read() and self.process.poll() is not None, "the end")
        return self.process.returncode

    def read(self) -> bool:
        """Take what has been drawn meanwhile; a live screen is never done. False if there was nothing."""
        drawn = bool(select.select([self._own], [], [], 0.1)[0])
        if drawn:
            self.shown += os.read(self._own, 65536).decode(errors="replace")
        return drawn

    @property
    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown)


def take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C is a signal."""
    import fcntl

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_session_at_a_terminal_shows_the_talk_and_obeys_its_keys(
    pulse: Pulse, server: str, spoken: Path
) -> None:
    terminal = Terminal(pulse, "--url", server)
    terminal.wait_for("listening")
    pulse.play(spoken)
    for shown in ("how are you", "Fine, thank you.", "■"):
        terminal.wait_for(shown)
    terminal.press("m")
    terminal.wait_for("muted")
    terminal.press("m  ")
    terminal.wait_for("push-to-talk")
    terminal.press("q")
    assert terminal.end() == 0
    assert termios.tcgetattr(terminal.theirs) == terminal.settings
    assert terminal.shown.rfind("\x1b[?25h") > terminal.shown.rfind("\x1b[?25l")  # the cursor is back


def test_ctrl_c_leaves_the_terminal_as_it_was(pulse: Pulse, server: str) -> None:
    terminal = Terminal(pulse, "--url", server)
    terminal.wait_for("listening")
    terminal.press("\x03")
    assert terminal.end() == 130
    assert termios.tcgetattr(terminal.theirs) == terminal.settings
    assert "Traceback" not in terminal.plain


def letters(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def resampled(recording: Path) -> Samples:
    chunk = read_recording(recording)
    return resample(chunk.samples, chunk.rate_hz, HEARD_HZ)
