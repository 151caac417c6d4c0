"""Frames cut from a stream, and the last seconds of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.framer import Framer, PreRoll
from tests.audio.strategies import cuts, noise, pieces_of


@given(st.integers(0, 9000), cuts, st.sampled_from([1, 160, 512, 3200]))
def test_frames_and_rest_of_the_pieces_equal_the_whole(samples: int, sizes: list[int], frame: int) -> None:
    sound, framer = noise(samples), Framer(frame)
    frames = [one for piece in pieces_of(sound, sizes) for one in framer.push(piece)]
    assert all(len(one) == frame for one in frames)
    assert framer.held_samples == samples % frame
    assert np.array_equal(np.concatenate([*frames, framer.finish()]), sound)


def test_after_finish_a_new_stream_begins() -> None:
    framer = Framer(512)
    framer.push(noise(700))
    assert len(framer.finish()) == 188
    assert (len(framer.finish()), framer.push(noise(511))) == (0, [])


def test_frames_do_not_change_when_the_caller_reuses_its_buffer() -> None:
    framer, buffer = Framer(4), np.ones(6, np.float32)
    framer.push(buffer)
    buffer[:] = 0
    assert framer.finish().tolist() == [1, 1]


@given(st.integers(1, 9000), cuts, st.integers(1, 4000))
def test_the_pre_roll_is_the_end_of_the_whole(samples: int, sizes: list[int], limit: int) -> None:
    sound, ring = noise(samples), PreRoll(limit, 16_000)
    for piece in pieces_of(sound, sizes):
        ring.push(piece)
    held = ring.cut(0)
    assert (held.start, held.end, held.rate_hz) == (max(0, samples - limit), samples, 16_000)
    assert np.array_equal(held.samples, sound[-limit:])


@given(st.integers(-50, 1200), st.integers(-50, 1200))
def test_a_cut_is_what_is_held_of_the_asked_positions(start: int, end: int) -> None:
    sound, ring = noise(1000), PreRoll(300, 16_000)
    ring.push(sound)
    chunk = ring.cut(start, end)
    assert np.array_equal(chunk.samples, sound[max(start, 700) : max(end, 0)])
    assert 700 <= chunk.start <= chunk.end <= 1000


def test_a_cut_is_a_copy_that_later_sound_does_not_change() -> None:
    ring = PreRoll(4, 16_000)
    ring.push(np.ones(4, np.float32))
    chunk = ring.cut(0)
    ring.push(np.zeros(4, np.float32))
    assert chunk.samples.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("samples", [3, 4, 5, 4000])
def test_the_pre_roll_never_grows(samples: int) -> None:
    ring = PreRoll(4, 16_000)
    for _ in range(10):
        ring.push(noise(samples))
    assert (ring.end, len(ring.cut(0).samples)) == (10 * samples, 4)
