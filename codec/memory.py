"""Echoic memory of one session: its encoder, its window and its health, in one value that can be rewound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from codec.health import Calibration, StateHealth
from codec.model import StateEncoder, merge_neighbours
from codec.window import FusedState, SegmentState, StateWindow, WindowState

Hidden = Tensor  # [n, d]: states of n tokens at the input of layer L+1


@dataclass(frozen=True)
class _Growing:
    """The open segment before its gate: weighted sums [1, k, c], masses [1, k], tokens so far."""

    sums: Tensor
    mass: Tensor
    tokens: int = 0


@dataclass(frozen=True)
class MemoryState:
    """The memory of a session at one moment."""

    window: WindowState
    growing: _Growing | None


class EchoicMemory:
    """One session's memory. ``warn`` is told once when a state is found sick; ``dropped`` counts every time."""

    def __init__(
        self,
        encoder: StateEncoder,
        calibration: Calibration,
        window: StateWindow,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._encoder, self._calibration, self._window, self._warn = encoder, calibration, window, warn
        self._growing: _Growing | None = None
        self.health: StateHealth | None = None
        self.dropped = 0

    @torch.no_grad()
    def push(self, hidden: Tensor, now_s: float) -> None:
        """A chunk's hidden states [n, d] at the input of layer L: the open segment grows by them."""
        self.touch(now_s)
        while len(hidden):
            growing = self._growing or _Growing(*self._encoder.empty())
            room = self._window.segment_tokens - growing.tokens
            self._growing = self._grow(growing, hidden[:room])
            self._window.update(self._seal(self._growing), now_s)
            self._settle()
            hidden = hidden[room:]

    def _grow(self, growing: _Growing, hidden: Tensor) -> _Growing:
        codes, weights = self._encoder.codes(hidden[None])
        return _Growing(
            *merge_neighbours(growing.sums, growing.mass, codes, weights), growing.tokens + len(hidden)
        )

    def _seal(self, growing: _Growing) -> SegmentState:
        filled = growing.mass[0] != 0  # true of what is not a number, too: health shall see it
        return SegmentState.of(self._encoder.seal(growing.sums, growing.mass)[0][filled], growing.tokens)

    def close_segment(self, now_s: float) -> None:
        """A pause: the open segment is finished and slides into the window."""
        self.expire(now_s)
        self._window.close_segment(now_s)
        self._settle()

    def _settle(self) -> None:
        if self._window.open is None:
            self._growing = None

    def touch(self, now_s: float) -> None:
        """The user or the assistant is being heard now: the expiry starts anew."""
        self.expire(now_s)
        self._window.touch(now_s)

    def expire(self, now_s: float) -> bool:
        """Zero and drop everything if neither side was heard for long enough; True if anything was dropped."""
        if not self._window.expire(now_s):
            return False
        self._wipe()
        return True

    def clear(self) -> None:
        """Zero and drop everything: the session ends."""
        self._window.clear()
        self._wipe()

    def _wipe(self) -> None:
        if self._growing is not None:
            self._growing.sums.zero_()
        self._growing = None

    def fused(self, now_s: float) -> FusedState:
        """What a reply that begins now may know. A sick window is dropped, counted, and warned about once."""
        self.expire(now_s)
        state = self._window.fuse(now_s)
        self.health = self._calibration.judge_window(state)
        if self.health is None or not self.health.fault:
            return state
        self.dropped += 1
        if self.dropped == 1:
            self._warn(f"echoic memory dropped, the turn goes on without it: {self.health.fault}")
        self.clear()
        return FusedState((), ())

    def receive(self, segments: Sequence[SegmentState], now_s: float) -> None:
        """Take over copies of another session's segments, oldest first."""
        for segment in segments:
            self._window.update(replace(segment, values=segment.values.clone()), now_s)
            self._window.close_segment(now_s)
        self._settle()

    def snapshot(self) -> MemoryState:
        """The memory as a value, to come back to when a turn is cancelled or a draft dropped."""
        return MemoryState(self._window.snapshot(), self._growing)

    def restore(self, state: MemoryState, now_s: float) -> None:
        """Be again what ``state`` was; what has expired meanwhile stays gone."""
        self._growing = state.growing
        self._window.restore(state.window, now_s)
        if self._window.open is None:
            self._wipe()
