from __future__ import annotations

import struct
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from codec.model import CodecConfig, CodecError, StateEncoder
from codec.packing import from_bytes, payload_bytes, to_bytes
from codec.window import SegmentState

NAME = b"codec 01"
SENT = SegmentState.of(torch.linspace(-4, 4, 27).round().view(3, 9), 7)

segments = st.lists(
    st.builds(
        lambda values, tokens: SegmentState.of(torch.tensor(values).view(-1, 9), tokens),
        st.lists(st.floats(-50, 50) | st.just(0.0), min_size=9, max_size=9) | st.just([0.0] * 27),
        st.integers(0, 500),
    ),
    max_size=4,
)


@given(segments)
def test_a_state_arrives_as_it_was_sent(sent: list[SegmentState]) -> None:
    assert list(from_bytes(to_bytes(sent, NAME), NAME)) == sent


def test_a_full_window_is_small() -> None:
    config = CodecConfig(d_model=576, layer=16)
    slots, _ = StateEncoder(config)(torch.randn(1, 40, 576), torch.ones(1, 40))
    window = [SegmentState.of(slots[0], 40)] * 3
    assert payload_bytes(window) <= 900
    assert len(to_bytes(window, NAME)) <= 1_200


@given(st.data())
def test_any_damaged_byte_is_noticed(data: st.DataObject) -> None:
    sent = bytearray(to_bytes([SENT], NAME))
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CodecError, match="damaged"):
        from_bytes(bytes(sent), NAME)


@given(st.integers(0, 60))
def test_a_state_that_was_cut_off_is_refused(kept: int) -> None:
    sent = to_bytes([SENT], NAME)
    with pytest.raises(CodecError, match="damaged"):
        from_bytes(sent[: min(kept, len(sent) - 1)], NAME)


def test_a_state_of_another_codec_is_refused_with_both_sides_named() -> None:
    with pytest.raises(CodecError, match=f"{NAME.hex()}.*{b'other 02'.hex()}"):
        from_bytes(to_bytes([], NAME), b"other 02")


def test_a_newer_version_is_refused() -> None:
    sent = bytearray(to_bytes([], NAME)[:-4])
    sent[4] = 9
    with pytest.raises(CodecError, match="version 9"):
        from_bytes(bytes(sent) + struct.pack("<I", zlib.crc32(sent)), NAME)


@given(st.binary(max_size=80))
def test_nonsense_behind_a_good_checksum_is_refused(body: bytes) -> None:
    """A hundred segments are promised: no body as short as this one can hold them."""
    made = struct.pack("<4sBBB8s", b"ECHO", 1, 100, 9, NAME) + body
    with pytest.raises(CodecError, match="too early"):
        from_bytes(made + struct.pack("<I", zlib.crc32(made)), NAME)
