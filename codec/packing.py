"""Segment states as bytes: int8, without the zeros, versioned, checksummed, and bound to their codec.

Layout, little-endian: magic ``ECHO``, version (u8), segments (u8), numbers a slot (u8), codec name (8 bytes).
For every segment: slots (u8), tokens (u16), scale (float16), and for every slot a bit mask of its numbers that are
not zero, then these numbers (int8). At the end the CRC-32 of all before it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import torch

from codec.model import CodecError
from codec.window import SegmentState

_MAGIC, _VERSION = b"ECHO", 1
_HEADER = struct.Struct("<4sBBB8s")
_SEGMENT = struct.Struct("<BHe")
_CRC = struct.Struct("<I")


def to_bytes(segments: Sequence[SegmentState], fingerprint: bytes) -> bytes:
    """The segments, oldest first, as bytes. ``fingerprint``: the first 8 bytes that name the codec."""
    dims = segments[0].values.shape[1] if segments else 0
    head = _HEADER.pack(_MAGIC, _VERSION, len(segments), dims, fingerprint)
    body = head + b"".join(map(_pack, segments))
    return body + _CRC.pack(zlib.crc32(body))


def payload_bytes(segments: Sequence[SegmentState]) -> int:
    """How many bytes the numbers themselves take, with their masks and scales."""
    return sum(len(_pack(segment)) for segment in segments)


def _pack(segment: SegmentState) -> bytes:
    values = segment.values.numpy()
    head = _SEGMENT.pack(len(values), min(segment.tokens, 0xFFFF), segment.scale)
    return head + b"".join(np.packbits(row != 0).tobytes() + row[row != 0].tobytes() for row in values)


def from_bytes(data: bytes, fingerprint: bytes) -> tuple[SegmentState, ...]:
    """The segments in ``data``; raises CodecError for damaged bytes, another version and another codec."""
    if (
        len(data) < _HEADER.size + _CRC.size
        or zlib.crc32(data[: -_CRC.size]) != _CRC.unpack(data[-_CRC.size :])[0]
    ):
        raise CodecError(f"{len(data)} bytes of state are damaged or cut off: have them sent again")
    magic, version, count, dims, made_by = _HEADER.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION):
        raise CodecError(f"state of kind {magic!r} version {version}: this reads {_MAGIC!r} version {_VERSION}")
    if made_by != fingerprint:
        raise CodecError(
            f"state made by codec {made_by.hex()}, this is codec {fingerprint.hex()}: both sides need the same"
        )
    reader = _Reader(data[_HEADER.size : -_CRC.size])
    segments = tuple(reader.segment(dims) for _ in range(count))
    if reader.rest:
        raise CodecError(f"{reader.rest} bytes too many after {count} segments of state")
    return segments


class _Reader:
    """Reads segments off bytes that passed their checksum but may still have been made wrong."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def rest(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.rest:
            raise CodecError(f"state ends {count - self.rest} bytes too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def segment(self, dims: int) -> SegmentState:
        slots, tokens, scale = _SEGMENT.unpack(self.take(_SEGMENT.size))
        values = np.zeros((slots, dims), np.int8)
        for row in values:
            mask = np.unpackbits(np.frombuffer(self.take(-(-dims // 8)), np.uint8), count=dims).astype(bool)
            row[mask] = np.frombuffer(self.take(int(mask.sum())), np.int8)
        return SegmentState(torch.from_numpy(values), scale, tokens)
