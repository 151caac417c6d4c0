"""The ring between a device's thread and the conversation's."""

from __future__ import annotations

import threading
import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from audio.ring import SampleRing


def counting(start: int, length: int) -> np.ndarray:
    return np.arange(start, start + length, dtype=np.float32)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_what_is_read_is_what_was_written_in_its_order(steps: list[tuple[int, int]]) -> None:
    ring, read = SampleRing(16), np.zeros(0, np.float32)
    for to_write, to_read in steps:
        ring.write(counting(ring.written, to_write))
        out = np.empty(to_read, np.float32)
        read = np.concatenate((read, out[: ring.read_into(out)]))
    np.testing.assert_array_equal(read, counting(0, len(read)))


def test_what_does_not_fit_is_lost_and_counted() -> None:
    ring = SampleRing(4)
    assert ring.write(counting(0, 6)) == 4
    assert ring.lost_samples == 2
    assert ring.take().tolist() == [0, 1, 2, 3]


def test_skipping_leaves_out_what_was_written_before_and_never_goes_back() -> None:
    ring = SampleRing(8)
    ring.write(counting(0, 6))
    ring.skip_to(4)
    ring.skip_to(2)
    assert ring.take().tolist() == [4, 5]


def test_it_reads_into_one_channel_of_several() -> None:
    ring, out = SampleRing(8), np.zeros((3, 2), np.float32)
    ring.write(counting(1, 3))
    ring.read_into(out[:, 0])
    assert out.tolist() == [[1, 0], [2, 0], [3, 0]]


def test_two_threads_lose_and_repeat_nothing() -> None:
    ring, whole = SampleRing(64), 20_000

    def write() -> None:
        while ring.written < whole:
            ring.write(counting(ring.written, min(17, 64 - ring.waiting, whole - ring.written)))
            time.sleep(0)

    writer = threading.Thread(target=write)
    writer.start()
    pieces: list[np.ndarray] = []
    while ring.read < whole:
        pieces.append(ring.take())
        time.sleep(0)
    writer.join()
    np.testing.assert_array_equal(np.concatenate(pieces), counting(0, whole))
