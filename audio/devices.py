"""Microphones and loudspeakers: which there are, which one is meant, and what to do when there is none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from audio.format import AudioError

Direction = Literal["input", "output"]
KINDS: dict[Direction, str] = {"input": "microphone", "output": "loudspeaker"}

_INSTALL_PORTAUDIO = {
    "linux": "sudo apt install libportaudio2 (Debian, Ubuntu), sudo dnf install portaudio (Fedora), "
    "or sudo pacman -S portaudio (Arch)",
    "darwin": "brew install portaudio, or pip install --force-reinstall sounddevice, whose wheel brings it",
    "win32": "pip install --force-reinstall sounddevice, whose wheel brings it",
}
_PERMISSION = {
    "linux": "check that your user may use the sound server (pactl info), or is in the group “audio”",
    "darwin": "allow your terminal in System Settings > Privacy & Security > Microphone, and start it again",
    "win32": "allow desktop apps in Settings > Privacy & security > Microphone",
}


class DeviceError(AudioError):
    """A sound device that is missing, not meant clearly, or does not work: what to do about it."""


@dataclass(frozen=True, slots=True)
class Device:
    """A sound device as PortAudio lists it; ``inputs`` and ``outputs`` are channels."""

    index: int
    name: str
    host: str
    inputs: int
    outputs: int
    rate_hz: int
    default_for: tuple[Direction, ...] = ()

    def channels(self, direction: Direction) -> int:
        """How many channels it has in this direction; 0 if it is none of the kind."""
        return self.inputs if direction == "input" else self.outputs


def portaudio() -> Any:
    """The ``sounddevice`` module. Raises DeviceError, with the line that installs what is missing."""
    try:
        import sounddevice
    except ImportError as error:
        raise DeviceError("sounddevice is not installed; install it with: pip install 'echoic[mic]'") from error
    except OSError as error:  # how sounddevice says that it has not found the library
        raise DeviceError(
            f"the PortAudio library is missing; install it with: {_here(_INSTALL_PORTAUDIO)}"
        ) from error
    return sounddevice


def list_devices(*, again: bool = False) -> list[Device]:
    """Every device there is; ``again`` looks anew, which ends all streams that are open."""
    library = portaudio()
    if again:
        # PortAudio looks for devices once, as it starts; sounddevice has no public way to start it again.
        library._terminate()
        library._initialize()
    hosts = library.query_hostapis()
    return [_device(each, hosts) for each in library.query_devices()]


def choose(devices: Sequence[Device], direction: Direction, wanted: str | None = None) -> Device:
    """The device with this index or name, or part of one; the default where nothing is wanted.

    Raises DeviceError naming what there is.
    """
    able = [each for each in devices if each.channels(direction)]
    if not able:
        raise DeviceError(f"there is no {KINDS[direction]}: plug one in; {_here(_PERMISSION)}")
    if wanted is None:
        return next((each for each in able if direction in each.default_for), able[0])
    exact = [each for each in able if wanted in (str(each.index), each.name)]
    found = exact or [each for each in able if wanted.casefold() in each.name.casefold()]
    if len(found) == 1 or len(exact) > 1:  # one name on several host interfaces: they are the same thing
        return found[0]
    what = f"no {KINDS[direction]} is called" if not found else f"more than one {KINDS[direction]} is called"
    names = ", ".join(f"{each.index} “{each.name}”" for each in found or able)
    raise DeviceError(f"{what} “{wanted}”; choose one of: {names}")


def refusal(direction: Direction, device: Device, reason: str) -> DeviceError:
    """What to tell when a device does not open."""
    kind = KINDS[direction]
    return DeviceError(
        f"the {kind} “{device.name}” does not open ({reason}); is another program holding it? "
        f"Or {_here(_PERMISSION)}. --list-devices shows the others"
    )


def silence_hint() -> str:
    """What to tell when a microphone gives nothing but digital zeros, as some systems do instead of refusing."""
    return f"the microphone gives nothing but digital silence: unmute it, or {_here(_PERMISSION)}"


def _device(told: dict[str, Any], hosts: Sequence[dict[str, Any]]) -> Device:
    index, host = told["index"], hosts[told["hostapi"]]
    # A system may have several host interfaces, each with defaults; the first interface is PortAudio's own choice.
    is_first = host is next((each for each in hosts if each["devices"]), None)
    directions: tuple[Direction, ...] = ("input", "output")
    return Device(
        index=index,
        name=told["name"],
        host=host["name"],
        inputs=told["max_input_channels"],
        outputs=told["max_output_channels"],
        rate_hz=round(told["default_samplerate"]),
        default_for=tuple(each for each in directions if is_first and host[f"default_{each}_device"] == index),
    )


def _here(by_platform: dict[str, str]) -> str:
    return by_platform.get(sys.platform, by_platform["linux"])
