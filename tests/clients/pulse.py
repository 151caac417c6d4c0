"""A PulseAudio server of its own: virtual microphone and loudspeaker, which PortAudio takes for real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = "apt-get install pulseaudio pulseaudio-utils libportaudio2 libasound2-plugins"
PATIENCE_S = 20.0


def missing() -> str:
    """Why there are no virtual devices on this machine; "" if there are."""
    programs = [name for name in ("pulseaudio", "pactl", "pacat", "paplay", "parecord") if not shutil.which(name)]
    if programs:
        return f"{', '.join(programs)} missing: {PACKAGES}"
    try:
        import_module("sounddevice")
        import_module("livekit.rtc")
    except (ImportError, OSError) as error:
        return f"{error}: pip install 'echoic[mic]', {PACKAGES}"
    found = any(
        Path(root).glob("**/alsa-lib/libasound_module_pcm_pulse.so") for root in ("/usr/lib", "/usr/lib64")
    )
    return "" if found else f"ALSA's pulse plugin is missing: {PACKAGES}"


def wait_until(happens: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Look again and again; fails when it does not happen in time."""
    give_up_at = time.monotonic() + patience_s
    while not happens():
        assert time.monotonic() < give_up_at, f"{what} did not happen within {patience_s:g} s"
        time.sleep(0.05)


class Pulse:
    """The server's virtual devices: what is played into ``room`` is what the microphone hears."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "PULSE_SERVER": f"unix:{folder}/native",
        }
        self._modules: dict[str, str] = {}
        self._running = ExitStack()

    def control(self, *words: str) -> str:
        """Ask the server for something."""
        return subprocess.run(
            ["pactl", *words], env=self.env, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        ).stdout.strip()

    def add_speaker(self, name: str) -> None:
        """A loudspeaker that nobody hears. A player of silence keeps it in blocks of 10 ms instead of 2 s."""
        self._modules[name] = self.control("load-module", "module-null-sink", f"sink_name={name}", "rate=48000")
        quick = ["--latency-msec=20", "--process-time-msec=10"]
        with Path("/dev/zero").open("rb") as silence:
            self.start(["pacat", "--raw", *quick, "-d", name], stdin=silence)

    def unplug(self, name: str) -> None:
        """The device vanishes."""
        self.control("unload-module", self._modules.pop(name))

    def play(self, recording: Path) -> None:
        """Somebody in the room says this, to its end."""
        subprocess.run(["paplay", "-d", "room", recording], env=self.env, timeout=60, check=True)

    def record(self, recording: Path) -> subprocess.Popen[Any]:
        """Record what the loudspeaker says, until it is terminated."""
        return self.start(["parecord", "-d", "speaker.monitor", "--file-format=wav", str(recording)])

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[Any]:
        """A program that ends with the server at the latest."""
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, **{"env": self.env, **quiet, **options})
        self._running.callback(process.wait)
        self._running.callback(process.kill)
        return process

    def begin(self) -> None:
        """Start the server, with its devices."""
        socket = self.folder / "native"
        options = ["--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no", "--disable-shm=yes"]
        quiet = ["--realtime=no", "--high-priority=no", "--log-level=error"]
        door = f"module-native-protocol-unix socket={socket} auth-anonymous=1"
        self.start(["pulseaudio", "-n", *options, *quiet, "-L", door])
        wait_until(socket.exists, "the sound server's start")
        self.plug_in()

    def plug_in(self) -> None:
        """One microphone and one loudspeaker."""
        self.add_speaker("speaker")
        self.add_speaker("room")
        self.control("load-module", "module-remap-source", "master=room.monitor", "source_name=microphone")
        self.control("set-default-sink", "speaker")
        self.control("set-default-source", "microphone")

    def end(self) -> None:
        """Stop everything."""
        self._running.close()


@contextmanager
def pulse_server(folder: Path) -> Iterator[Pulse]:
    """A server with its devices, for as long as the block runs."""
    pulse = Pulse(folder)
    try:
        pulse.begin()
        yield pulse
    finally:
        pulse.end()
