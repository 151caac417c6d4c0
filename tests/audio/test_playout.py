"""The jitter buffer in front of the loudspeaker."""

from __future__ import annotations

import numpy as np
import pytest

from audio.ducking import DUCKED
from audio.playout import Cut, Playout

RATE_HZ = 1000 * 24
BLOCK = RATE_HZ // 100  # 10 ms


def loud(ms: int) -> np.ndarray:
    return np.ones(RATE_HZ * ms // 1000, np.float32)


def play(playout: Playout, ms: int) -> np.ndarray:
    """What the device is given in so many milliseconds, 10 at a time."""
    blocks = np.empty((ms // 10, BLOCK * playout.rate_hz // RATE_HZ), np.float32)
    for block in blocks:
        playout.fill(block)
    return blocks.reshape(-1)


def playing(ms: int = 200, **options: float) -> Playout:
    """A playout in the middle of a reply."""
    playout = Playout(RATE_HZ, RATE_HZ, **options)
    playout.push("a", loud(ms))
    play(playout, 50)
    return playout


def test_a_reply_begins_once_enough_of_it_waits() -> None:
    playout = Playout(RATE_HZ, RATE_HZ, prebuffer_ms=40)
    playout.push("a", loud(30))
    assert not play(playout, 20).any()
    playout.push("a", loud(10))
    assert play(playout, 20).any()


def test_a_reply_that_is_shorter_than_the_buffer_is_played_when_it_is_complete() -> None:
    playout = Playout(RATE_HZ, RATE_HZ, prebuffer_ms=40)
    playout.push("a", loud(20))
    playout.finish("a")
    assert np.count_nonzero(play(playout, 40)) > BLOCK
    assert not playout.busy


def test_a_whole_reply_is_played_without_a_gap() -> None:
    playout = Playout(RATE_HZ, RATE_HZ)
    for _ in range(10):
        playout.push("a", loud(20))
        play(playout, 20)
    playout.finish("a")
    play(playout, 100)
    assert playout.played_ms("a") == 200
    playout.push("b", loud(50))
    assert playout.gaps_ms == []


def test_running_dry_in_the_middle_of_a_reply_is_a_gap_with_a_length() -> None:
    playout = playing(50)
    play(playout, 60)
    playout.push("a", loud(50))
    assert playout.gaps_ms == [60.0]


def test_where_it_runs_dry_the_sound_fades_and_never_clicks() -> None:
    playout = playing(50, fade_ms=20)
    play(playout, 30)
    playout.push("a", loud(100))
    heard = np.concatenate((play(playout, 60), play(playout, 60)))
    assert heard[0] == heard[-1] == 0.0
    assert np.abs(np.diff(heard)).max() < 0.01


def test_a_cut_fades_out_and_drops_the_rest() -> None:
    playout = playing(fade_ms=10)
    playout.forget()
    heard = play(playout, 100)
    assert heard[0] == 1.0
    assert heard[BLOCK - 1] == 0.0
    assert not heard[BLOCK:].any()


def test_a_cut_tells_to_the_sample_how_much_was_played() -> None:
    playout = playing(fade_ms=10)
    playout.forget()
    assert playout.settle() == []  # the device has not got there yet
    play(playout, 10)
    assert playout.settle() == [Cut("a", 60.0)]
    assert playout.settle() == []


def test_what_comes_after_a_cut_is_played() -> None:
    playout = playing()
    playout.forget()
    playout.push("b", loud(50))
    assert play(playout, 100)[BLOCK * 2 :].any()
    assert playout.played_ms("b") == 50


def test_replies_that_were_not_begun_are_forgotten_unheard() -> None:
    playout = playing()
    playout.finish("a")
    playout.push("b", loud(50))
    playout.forget()
    play(playout, 20)
    assert [cut.item for cut in playout.settle()] == ["a", "b"]
    assert not playout.busy


def test_a_reply_that_was_played_to_its_end_is_not_cut() -> None:
    playout = playing(50)
    playout.finish("a")
    play(playout, 50)
    playout.forget()
    play(playout, 20)
    assert playout.settle() == []


@pytest.mark.parametrize("rate_hz", [44_100, 48_000, 16_000])
def test_played_milliseconds_are_the_same_at_every_rate_of_a_device(rate_hz: int) -> None:
    playout = Playout(RATE_HZ, rate_hz)
    playout.push("a", loud(300))
    playout.finish("a")
    for _ in range(10):
        playout.fill(np.empty(rate_hz // 100, np.float32))
    assert playout.played_ms("a") == pytest.approx(100, abs=0.1)


def test_another_device_goes_on_from_the_exact_sample() -> None:
    before = playing(200)
    after = Playout(RATE_HZ, 48_000)
    after.take_over(before)
    assert after.played_ms("a") == 50
    after.push("a", loud(100))
    for _ in range(40):
        after.fill(np.empty(480, np.float32))
    assert after.played_ms("a") == pytest.approx(300, abs=12)  # what the resampler still holds
    assert after.gaps_ms == []


def test_two_minutes_that_nobody_plays_are_the_most_that_waits() -> None:
    playout = Playout(RATE_HZ, RATE_HZ)
    for _ in range(121):
        playout.push("a", loud(1000))
    assert playout.lost_ms == 1000


def test_a_reply_that_is_ducked_goes_on_more_quietly_and_comes_back_without_a_step() -> None:
    playout = playing(400)
    before = play(playout, 20)
    playout.duck(True)
    ducked = play(playout, 50)
    playout.duck(False)
    after = play(playout, 50)
    assert before[-1] == after[-1] == 1.0
    assert ducked[-1] == np.float32(DUCKED)
    assert np.abs(np.diff(np.concatenate((before, ducked, after)))).max() < 0.01
    assert playout.played_ms("a") == 170


@pytest.mark.parametrize("block", [7, 100, 2048])
def test_ducking_fits_any_block_of_the_device(block: int) -> None:
    playout = playing(400)
    playout.duck(True)
    out = np.empty(block, np.float32)
    playout.fill(out)
    assert out[-1] == pytest.approx(DUCKED)
