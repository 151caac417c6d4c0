"""Which device is meant, and what is told when there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from audio.devices import Device, DeviceError, choose, list_devices, silence_hint

HEADSET = Device(0, "USB Headset", "Core", 1, 2, 48_000)
DESK = Device(1, "Desk microphone", "Core", 2, 0, 44_100, ("input",))
SPEAKER = Device(2, "Speakers (USB)", "Core", 0, 2, 48_000, ("output",))
ALL = [HEADSET, DESK, SPEAKER]


def test_the_default_is_used_unless_another_is_named() -> None:
    assert choose(ALL, "input") is DESK
    assert choose(ALL, "output") is SPEAKER
    assert choose([HEADSET], "input") is HEADSET


@pytest.mark.parametrize("wanted", ["0", "USB Headset", "headset"])
def test_a_device_is_named_by_its_index_its_name_or_part_of_it(wanted: str) -> None:
    assert choose(ALL, "output", wanted) is HEADSET


def test_a_name_counts_among_devices_of_the_kind_only() -> None:
    assert choose(ALL, "input", "usb") is HEADSET
    with pytest.raises(DeviceError, match=r"more than one loudspeaker is called “usb”.*0 “USB Headset”, 2 “Sp"):
        choose(ALL, "output", "usb")


def test_a_device_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(DeviceError, match=r"no microphone is called “sofa”; choose one of: 0 “USB Headset”, 1"):
        choose(ALL, "input", "sofa")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_microphone_and_a_silent_one_are_told_with_what_to_do(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(DeviceError, match=r"there is no microphone: plug one in; (check|allow)"):
        choose([SPEAKER], "input")
    assert ("Privacy" in silence_hint()) is (platform != "linux")


@pytest.mark.parametrize(
    ("platform", "line"), [("linux", "apt install libportaudio2"), ("darwin", "brew install"), ("win32", "pip")]
)
def test_a_missing_portaudio_is_told_with_the_line_that_installs_it(
    platform: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    with pytest.raises(DeviceError, match=line):
        list_devices()


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(DeviceError, match=r"pip install 'echoic\[mic\]'"):
        list_devices()
