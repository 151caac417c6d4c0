"""Echoic memory of one session: what is said becomes segments, which slide through a window that is watched."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from codec.health import Calibration, StateHealth
from codec.model import StateEncoder, merge_neighbours
from codec.window import FusedState, SegmentState, StateWindow, WindowState, fuse

Hidden = Tensor  # [n, d]: states of n tokens at the input of layer L+1


@dataclass(frozen=True)
class _Growing:
    """The open segment before its gate: weighted sums [1, k, c], masses [1, k], tokens so far."""

    sums: Tensor
    mass: Tensor
    tokens: int = 0


@dataclass(frozen=True)
class Said:
    """A message so far, as segments, oldest first; a long one fills several."""

    segments: tuple[SegmentState, ...] = ()
    growing: _Growing | None = None  # what the last segment was made of; None where it is full

    def wipe(self) -> None:
        """Overwrite what is growing; the segments are the window's to wipe."""
        if self.growing is not None:
            self.growing.sums.zero_()


class SegmentEncoder:
    """Words as they are read, to segments of at most ``segment_tokens`` tokens. Keeps nothing."""

    def __init__(self, encoder: StateEncoder, segment_tokens: int = 48) -> None:
        self._encoder, self._segment_tokens = encoder, segment_tokens

    @torch.no_grad()
    def grow(self, said: Said, hidden: Hidden) -> Said:
        """The message with the next words; the result depends on the words, not on how they are cut."""
        while len(hidden):
            growing = said.growing or _Growing(*self._encoder.empty())
            full = said.segments if said.growing is None else said.segments[:-1]
            room = self._segment_tokens - growing.tokens
            codes, weights = self._encoder.codes(hidden[None, :room])
            sums, mass = merge_neighbours(growing.sums, growing.mass, codes, weights)
            growing = _Growing(sums, mass, growing.tokens + len(hidden[:room]))
            hidden = hidden[room:]
            said = Said((*full, self._seal(growing)), growing if growing.tokens < self._segment_tokens else None)
        return said

    @torch.no_grad()
    def join(self, older: SegmentState, newer: SegmentState) -> SegmentState:
        """Two segments as one of the same size: neighbours are merged, a slot weighing what its tokens weigh."""
        slots = torch.cat([older.slots, newer.slots]).to(self._encoder.center)
        weights = [one.tokens / max(1, len(one.values)) for one in (older, newer) for _ in one.values]
        sums, mass = self._encoder.empty()
        sums, mass = merge_neighbours(sums, mass, slots[None], mass.new_tensor([weights]))
        means = sums[0] / mass[0, :, None].clamp(min=1e-6)
        return SegmentState.of(means[mass[0] > 0], older.tokens + newer.tokens)

    def _seal(self, growing: _Growing) -> SegmentState:
        filled = growing.mass[0] != 0  # true of what is not a number, too: health shall see it
        return SegmentState.of(self._encoder.seal(growing.sums, growing.mass)[0][filled], growing.tokens)


@dataclass(frozen=True)
class MemoryState:
    """The memory of a session at one moment."""

    window: WindowState
    settled: WindowState


class EchoicMemory:
    """One session's memory. ``warn`` is told once when a state is found sick; ``dropped`` counts every time.

    A message that is still being said is ``heard``: it can be said anew, taken back, or settled.
    """

    def __init__(
        self,
        calibration: Calibration,
        window: StateWindow,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._calibration, self._window, self._warn = calibration, window, warn
        self._settled = window.snapshot()  # without the message that is being said
        self.health: StateHealth | None = None
        self.dropped = 0

    @property
    def open(self) -> SegmentState | None:
        """The segment being said."""
        return self._window.open

    @property
    def era(self) -> int:
        """How often everything was dropped."""
        return self._window.snapshot().era

    @property
    def expiry_s(self) -> float:
        """Seconds in which neither side is heard, after which all is gone."""
        return self._window.expiry_s

    def hear(self, segments: Sequence[SegmentState], now_s: float) -> None:
        """The message that is being said is this so far, whatever was heard of it before."""
        self.touch(now_s)
        self._window.restore(self._settled, now_s)
        for segment in segments:
            self._window.close_segment(now_s)
            self._window.update(segment, now_s)

    def settle(self, now_s: float) -> None:
        """A pause: the message is over, its segments stay."""
        self.expire(now_s)
        self._window.close_segment(now_s)
        self._settled = self._window.snapshot()

    def unhear(self, now_s: float) -> None:
        """The message is taken back."""
        self.expire(now_s)
        self._window.restore(self._settled, now_s)

    def touch(self, now_s: float) -> None:
        """The user or the assistant is being heard now: the expiry starts anew."""
        self.expire(now_s)
        self._window.touch(now_s)

    def expire(self, now_s: float) -> bool:
        """Zero and drop everything if neither side was heard for long enough; True if anything was dropped."""
        if not self._window.expire(now_s):
            return False
        self._wipe_settled()
        return True

    def clear(self) -> None:
        """Zero and drop everything: the session ends."""
        self._window.clear()
        self._wipe_settled()

    def _wipe_settled(self) -> None:
        """A long message may have pushed segments out of the window that it would leave in if taken back."""
        for segment in self._settled.closed:
            segment.wipe()
        self._settled = self._window.snapshot()

    def fused(self, now_s: float, but: Container[str] = ()) -> FusedState:
        """What a reply that begins now may know, ``but`` some messages. A sick window is dropped and counted."""
        self.expire(now_s)
        segments = tuple(one for one in self._settled.closed if one.message not in but)
        state = fuse(segments, self._window.decay)
        self.health = self._calibration.judge_window(state)
        if self.health is None or not self.health.fault:
            return state
        self.dropped += 1
        if self.dropped == 1:
            self._warn(f"echoic memory dropped, the turn goes on without it: {self.health.fault}")
        self.clear()
        return FusedState((), ())

    def outlook(self, now_s: float) -> tuple[tuple[float, ...], float]:
        """The weight of each segment, oldest first, with what is being said; and the seconds until all is gone."""
        window = self._window.snapshot()
        held = [segment for segment in (*window.closed, window.open) if segment is not None and segment.tokens]
        count = min(len(held), self._window.size)
        weights = tuple(self._window.decay**age for age in reversed(range(count)))
        return weights, window.active_s + self._window.expiry_s - now_s

    def receive(self, segments: Sequence[SegmentState], now_s: float) -> None:
        """Take over copies of another session's segments, oldest first."""
        self.hear([replace(segment, values=segment.values.clone()) for segment in segments], now_s)
        self.settle(now_s)

    def snapshot(self) -> MemoryState:
        """The memory as a value, to come back to when a turn is cancelled or a draft dropped."""
        return MemoryState(self._window.snapshot(), self._settled)

    def restore(self, state: MemoryState, now_s: float) -> None:
        """Hold again what ``state`` held; what has expired meanwhile stays gone."""
        self._window.restore(state.settled, now_s)
        self._settled = self._window.snapshot()
        self._window.restore(state.window, now_s)
