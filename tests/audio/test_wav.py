"""Recordings in and out, and every way a file can be bad."""

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from audio.format import AudioChunk, AudioError
from audio.wav import read_recording, write_recording
from tests.audio.strategies import noise


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "speech.wav"
    soundfile.write(path, noise(16_000), 16_000, subtype="PCM_16")
    return path


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3", "aiff"])
@pytest.mark.parametrize("rate_hz", [8000, 44_100])
def test_any_container_is_read_at_its_own_rate(tmp_path: Path, suffix: str, rate_hz: int) -> None:
    path = tmp_path / f"speech.{suffix}"
    soundfile.write(path, noise(rate_hz), rate_hz)
    chunk = read_recording(path)
    assert (chunk.samples.dtype, chunk.rate_hz, chunk.start) == (np.float32, rate_hz, 0)
    assert chunk.duration_ms == pytest.approx(1000, abs=1)


def test_stereo_is_mixed_to_mono(tmp_path: Path) -> None:
    left, right = noise(1000), noise(1000)[::-1]
    soundfile.write(tmp_path / "stereo.wav", np.stack((left, right), axis=1), 48_000, subtype="FLOAT")
    assert np.allclose(read_recording(tmp_path / "stereo.wav").samples, (left + right) / 2)


@pytest.mark.parametrize("rate_hz", [4000, 384_000])
def test_the_lowest_and_the_highest_rate_are_read(tmp_path: Path, rate_hz: int) -> None:
    soundfile.write(tmp_path / "edge.wav", noise(4000), rate_hz)
    assert read_recording(tmp_path / "edge.wav").rate_hz == rate_hz


@pytest.mark.parametrize("rate_hz", [1, 768_000])
def test_a_rate_that_no_speech_has_is_refused(tmp_path: Path, rate_hz: int) -> None:
    soundfile.write(tmp_path / "odd.wav", noise(4000), rate_hz)
    with pytest.raises(AudioError, match=rf"odd\.wav: .*{rate_hz} Hz .*resample"):
        read_recording(tmp_path / "odd.wav")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"nowhere\.wav: there is no such file"):
        read_recording(tmp_path / "nowhere.wav")


def test_a_folder_is_not_a_recording(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="this is a folder"):
        read_recording(tmp_path)


@pytest.mark.parametrize("content", [b"", b"Dear diary, today it rained.\n", b"RIFF", b"\x00" * 500])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "diary.wav").write_bytes(content)
    with pytest.raises(AudioError, match=r"diary\.wav: (not a readable recording|truncated).*; \w+"):
        read_recording(tmp_path / "diary.wav")


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "aiff"])
@pytest.mark.parametrize("kept", [0.05, 0.5, 0.9])
def test_a_truncated_recording_is_refused(tmp_path: Path, suffix: str, kept: float) -> None:
    path = tmp_path / f"cut.{suffix}"
    soundfile.write(path, noise(48_000), 16_000)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(AudioError, match=rf"cut\.{suffix}: .*(truncated|not a readable recording)"):
        read_recording(path)


@pytest.mark.parametrize("unknown", [0xFFFF_FFFF, 0x7FFF_FFFF])
def test_a_wav_from_a_pipe_that_does_not_know_its_length_is_read(recording: Path, unknown: int) -> None:
    content = bytearray(recording.read_bytes())
    content[4:8] = content[40:44] = struct.pack("<I", unknown)
    recording.write_bytes(content)
    assert len(read_recording(recording).samples) == 16_000


def test_a_recording_without_samples_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "empty.wav", noise(0), 16_000)
    with pytest.raises(AudioError, match="zero samples"):
        read_recording(tmp_path / "empty.wav")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_numbers_are_refused(tmp_path: Path, value: float) -> None:
    soundfile.write(tmp_path / "nan.wav", np.array([0.0, value], np.float32), 16_000, subtype="FLOAT")
    with pytest.raises(AudioError, match="NaN or infinite"):
        read_recording(tmp_path / "nan.wav")


def test_what_is_written_is_read_again(tmp_path: Path, recording: Path) -> None:
    chunk = read_recording(recording)
    write_recording(tmp_path / "new" / "copy.wav", chunk)
    assert np.array_equal(read_recording(tmp_path / "new" / "copy.wav").samples, chunk.samples)


def test_two_sides_are_two_channels_on_one_timeline(tmp_path: Path) -> None:
    user, reply = AudioChunk(noise(300), 16_000, start=1000), AudioChunk(noise(200), 16_000, start=1250)
    write_recording(tmp_path / "both.wav", user, reply)
    written, rate_hz = soundfile.read(tmp_path / "both.wav", dtype="float32")
    assert (written.shape, rate_hz) == ((450, 2), 16_000)
    assert np.allclose(written[:300, 0], user.samples, atol=1e-4)
    assert np.allclose(written[250:, 1], reply.samples, atol=1e-4)
    assert not written[300:, 0].any()
    assert not written[:250, 1].any()


def test_sides_of_different_rates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"\[16000, 24000\]; resample"):
        write_recording(tmp_path / "x.wav", AudioChunk(noise(9), 16_000), AudioChunk(noise(9), 24_000))


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AudioError, match=r"x\.wav: cannot be written .*choose another folder"):
        write_recording(tmp_path / "file" / "x.wav", AudioChunk(noise(9), 16_000))
