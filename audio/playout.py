"""Playout: replies wait here for the loudspeaker; knows to the sample what was played of each."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from audio.ducking import DUCKED
from audio.format import Samples, ms_to_samples, samples_to_ms
from audio.resample import StreamResampler, resample
from audio.ring import SampleRing

LONGEST_S = 120  # a server that does not pace its sound may send a whole reply at once


@dataclass(frozen=True, slots=True)
class Cut:
    """A reply was forgotten after this much of it had gone to the device, the fade included."""

    item: str
    played_ms: float


@dataclass(slots=True)
class _Segment:
    """Where one reply lies in the ring; ``end`` is None while more of it may come."""

    item: str
    start: int
    end: int | None = None


class Playout:
    """A jitter buffer from replies at ``from_hz`` to a device at ``rate_hz``.

    ``fill`` belongs to the device's thread; everything else to the conversation's. Sound waits until
    ``prebuffer_ms`` of it are there, or all of it. Where it runs dry it fades out, and in again when it goes on;
    more sound of a reply that ran dry in its middle is a gap, and counted. ``forget`` fades what is being played
    and drops the rest of it; sound that is pushed after it is kept. ``duck`` makes all of it quieter for a while.
    """

    def __init__(self, from_hz: int, rate_hz: int, *, prebuffer_ms: float = 40.0, fade_ms: float = 20.0) -> None:
        self.rate_hz = rate_hz
        self.gaps_ms: list[float] = []
        self._from_hz = from_hz
        self._ring = SampleRing(LONGEST_S * rate_hz)
        self._resampler = StreamResampler(from_hz, rate_hz)
        self._prebuffer = ms_to_samples(prebuffer_ms, rate_hz)
        self._ramp_in = np.linspace(0, 1, ms_to_samples(fade_ms, rate_hz), dtype=np.float32)
        self._ramp_out = self._ramp_in[::-1].copy()
        self._ramp_level = np.empty_like(self._ramp_in)
        self._segments: deque[_Segment] = deque()
        self._cutting: list[_Segment] = []
        # Each of these is written by one thread only, and read by the other.
        self._complete_to = 0  # sound before this position waits for nothing
        self._cut_to = 0  # sound before this position is not wanted any more
        self._wanted_level = 1.0
        self._level = 1.0
        self._cut_at = 0  # where the device stopped for the latest cut
        self._cut_done = 0  # the latest ``_cut_to`` that the device has obeyed
        self._dry_samples = 0  # of silence since the sound ran out
        self._sounding = False
        self._faded_in = 0

    # --- the conversation's side ---

    @property
    def waiting_ms(self) -> float:
        """How much sound waits for the device."""
        return self._ms(self._ring.waiting)

    @property
    def lost_ms(self) -> float:
        """How much sound was lost because more than two minutes of it waited."""
        return self._ms(self._ring.lost_samples)

    @property
    def busy(self) -> bool:
        """Whether something is being played or waits for it."""
        return self._sounding or self._ring.waiting > 0

    def push(self, item: str, samples: Samples) -> None:
        """More sound ``[n]`` at ``from_hz`` of this reply."""
        segment = self._open(item)
        if self._ring.waiting == 0 and self._ring.written > segment.start:
            self.gaps_ms.append(round(self._ms(self._dry_samples), 1))
        self._ring.write(self._resampler.push(samples))

    def finish(self, item: str) -> None:
        """All of this reply was pushed; nothing happens where it was forgotten meanwhile."""
        if self._segments and self._segments[-1].item == item and self._segments[-1].end is None:
            self._ring.write(self._resampler.finish())
            self._segments[-1].end = self._complete_to = self._ring.written

    def forget(self) -> None:
        """Fade out what is being played, and drop all that waits; ``settle`` tells where the device stopped."""
        self._resampler = StreamResampler(self._from_hz, self.rate_hz)
        self._cutting += self._unplayed()
        self._segments.clear()
        self._cut_to = self._complete_to = self._ring.written

    def duck(self, ducked: bool) -> None:
        """Whether what is played is to be quieter, until told otherwise."""
        self._wanted_level = DUCKED if ducked else 1.0

    def settle(self) -> list[Cut]:
        """Where the replies that were forgotten have stopped: told once, when the device has got there."""
        if self._cut_done < self._cut_to:
            return []
        cutting, self._cutting = self._cutting, []
        return [Cut(each.item, self._ms(max(self._cut_at - each.start, 0))) for each in cutting]

    def take_over(self, before: Playout) -> None:
        """Go on with what a device that is gone has left unplayed. For a new playout."""
        self.gaps_ms = before.gaps_ms
        unplayed, read = before._unplayed(), before._ring.read
        rest = before._ring.take()
        self._ring.write(resample(rest, before.rate_hz, self.rate_hz) if len(rest) else rest)
        ratio = self.rate_hz / before.rate_hz
        for segment in unplayed:
            end = None if segment.end is None else round((segment.end - read) * ratio)
            self._segments.append(_Segment(segment.item, round((segment.start - read) * ratio), end))
            self._complete_to = end or self._complete_to

    def played_ms(self, item: str) -> float:
        """How much of this reply has gone to the device; 0 of one that is not, or no longer, held."""
        for segment in self._segments:
            if segment.item == item:
                end = self._ring.written if segment.end is None else segment.end
                return self._ms(max(min(self._ring.read, end) - segment.start, 0))
        return 0.0

    def _open(self, item: str) -> _Segment:
        if not self._segments or self._segments[-1].item != item:
            while self._segments and self._segments[0] not in self._unplayed():
                self._segments.popleft()
            self._segments.append(_Segment(item, self._ring.written))
        return self._segments[-1]

    def _unplayed(self) -> list[_Segment]:
        return [each for each in self._segments if each.end is None or each.end > self._ring.read]

    def _ms(self, samples: int) -> float:
        return samples_to_ms(samples, self.rate_hz)

    # --- the device's side ---

    def fill(self, out: Samples) -> None:
        """Write the next ``[n]`` samples for the loudspeaker, silence where there are none. Never waits."""
        cut_to = self._cut_to
        if self._cut_done < cut_to:
            self._fade_away(out, cut_to)
        else:
            self._play(out)
        self._change_level(out)

    def _play(self, out: Samples) -> None:
        ring = self._ring
        if not self._sounding and not self._may_start():
            self._dry_samples += len(out)
            out[:] = 0
            return
        if not self._sounding:
            self._faded_in = self._dry_samples = 0
        goes_on = ring.waiting > len(out)
        count = ring.read_into(out)
        out[count:] = 0
        self._fade_in(out[:count])
        if not goes_on:  # more may come in time, but nobody knows: better a fade too much than a click
            _fade_out(out[:count], self._ramp_out)
            self._dry_samples = len(out) - count
        self._sounding = goes_on

    def _may_start(self) -> bool:
        waiting = self._ring.waiting
        return waiting >= self._prebuffer or (waiting > 0 and self._ring.read < self._complete_to)

    def _fade_in(self, sound: Samples) -> None:
        ramp = self._ramp_in[self._faded_in : self._faded_in + len(sound)]
        np.multiply(sound[: len(ramp)], ramp, out=sound[: len(ramp)])
        self._faded_in += len(ramp)

    def _fade_away(self, out: Samples, cut_to: int) -> None:
        """The last sound of a reply that is cut. A fade longer than the device's block is cut to it."""
        ring = self._ring
        count = 0
        if self._sounding:
            wanted = min(len(out), len(self._ramp_out), max(cut_to - ring.read, 0))
            count = ring.read_into(out[:wanted])
            _fade_out(out[:count], self._ramp_out)
        out[count:] = 0
        self._cut_at = ring.read
        ring.skip_to(cut_to)
        self._sounding, self._dry_samples = False, len(out) - count
        self._cut_done = cut_to

    def _change_level(self, out: Samples) -> None:
        """Go to the level that is wanted within a fade, or the block if that is shorter."""
        before, wanted = self._level, self._wanted_level
        count = min(len(out), len(self._ramp_in)) if before != wanted else 0
        if count:
            way = self._ramp_level[:count]
            np.multiply(_last_steps(self._ramp_in, count), wanted - before, out=way)
            np.add(way, before, out=way)
            np.multiply(out[:count], way, out=out[:count])
        if wanted != 1.0:
            np.multiply(out[count:], wanted, out=out[count:])
        self._level = wanted


def _fade_out(sound: Samples, ramp: Samples) -> None:
    """Fade the end of the sound; a steeper fade where it is shorter than the ramp."""
    count = min(len(sound), len(ramp))
    if count:
        np.multiply(sound[-count:], _last_steps(ramp, count), out=sound[-count:])


def _last_steps(ramp: Samples, count: int) -> Samples:
    """The ramp in so many steps, the last of which is its end."""
    step = len(ramp) // count
    return ramp[len(ramp) - 1 - step * (count - 1) :: step]
