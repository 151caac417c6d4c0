"""Recordings in and out: any file that libsndfile reads, any rate, any number of channels."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import soundfile

from audio.format import AudioChunk, AudioError, Samples, check_rate, float_to_int16, mix_to_mono

# Compressed formats state their length as an estimate; a file that lacks more than this was cut off.
_LENGTH_TOLERANCE_S = 0.1
# Programs that write to a pipe cannot know the length and leave a size near the largest possible in the header.
_UNKNOWN_SIZE = 0x7FFF_0000


def read_recording(path: str | Path) -> AudioChunk:
    """A whole recording as mono sound at its own rate, channels mixed.

    Raises AudioError, naming the file and what to do, for anything that is not a complete recording.
    """
    file = Path(path)
    if not file.exists():
        raise AudioError(f"{file}: there is no such file; check the path")
    if not file.is_file():
        raise AudioError(f"{file}: this is a folder, not a recording; name the files in it")
    try:
        return _decode(file)
    except AudioError as error:
        raise AudioError(f"{file}: {error}") from None
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip(". ")
        raise AudioError(f"{file}: not a readable recording ({reason}); convert it to WAV or FLAC") from error
    except OSError as error:
        raise AudioError(f"{file}: cannot be read ({error.strerror}); check its permissions") from error


def write_recording(path: str | Path, *sides: AudioChunk) -> None:
    """A 16-bit WAV file with one channel for each chunk, on one timeline that begins with the earliest chunk.

    All chunks have the same rate. Folders are made as needed. Raises AudioError when the file cannot be written.
    """
    file = Path(path)
    rates_hz = {side.rate_hz for side in sides}
    if len(rates_hz) != 1:
        raise AudioError(f"{file}: one recording has one rate, not {sorted(rates_hz)}; resample the sides first")
    first, last = min(side.start for side in sides), max(side.end for side in sides)
    timeline = np.zeros((last - first, len(sides)), np.int16)
    for channel, side in enumerate(sides):
        timeline[side.start - first : side.end - first, channel] = float_to_int16(side.samples)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(file, timeline, rates_hz.pop(), subtype="PCM_16", format="WAV")
    except (OSError, soundfile.LibsndfileError) as error:
        raise AudioError(f"{file}: cannot be written ({error}); choose another folder") from error


def _decode(file: Path) -> AudioChunk:
    _check_container(file)
    with soundfile.SoundFile(file) as recording:
        rate_hz = check_rate(recording.samplerate)
        stated = recording.frames
        samples: Samples = recording.read(dtype="float32", always_2d=True)
    if len(samples) < stated - _LENGTH_TOLERANCE_S * rate_hz:
        raise AudioError(f"truncated: {len(samples)} of {stated} samples are there; copy or record it again")
    if len(samples) == 0:
        raise AudioError("there is no sound in it (zero samples); record it again")
    if not np.isfinite(samples).all():
        raise AudioError("some of its samples are NaN or infinite; export it again")
    return AudioChunk(mix_to_mono(samples), rate_hz)


def _check_container(file: Path) -> None:
    """Raise AudioError for a WAV or AIFF file that is shorter than its header says; libsndfile would not."""
    with file.open("rb") as stream:
        head = stream.read(8)
    byte_orders: dict[bytes, Literal["little", "big"]] = {b"RIFF": "little", b"FORM": "big"}
    order = byte_orders.get(head[:4])
    if order is None:
        return
    stated, found = int.from_bytes(head[4:], order) + 8, file.stat().st_size
    if found < stated < _UNKNOWN_SIZE:
        raise AudioError(f"truncated: {found} of {stated} bytes are there; copy or record it again")
