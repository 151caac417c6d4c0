"""The window of the last speech segments: what is open grows, a pause closes it, it slides, fades and expires.

Pure: no clock of its own, every call is given the time in seconds, which never runs backwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from codec.model import CodecError

_LEVELS = 127  # int8, symmetric


@dataclass(frozen=True, eq=False)
class SegmentState:
    """The compressed state of one segment: int8 ``values`` [k, c] times ``scale``, of ``tokens`` tokens.

    It is int8 from the moment it exists, so that what is stored, sent and injected are the same numbers.
    ``message``: the key of the message it is part of, where messages have keys.
    """

    values: Tensor
    scale: float
    tokens: int
    message: str = field(default="", compare=False)

    @classmethod
    def of(cls, slots: Tensor, tokens: int) -> SegmentState:
        """Round gated slots [k, c] to int8. Numbers that are not finite saturate the scale, for health to see."""
        peak = float(slots.detach().abs().max()) if slots.numel() else 0.0
        scale = _half(peak / _LEVELS) if math.isfinite(peak) else math.inf
        steps = slots.detach() / scale if 0 < scale < math.inf else torch.zeros_like(slots)
        return cls(steps.round().clamp(-_LEVELS, _LEVELS).to(torch.int8).cpu(), scale, tokens)

    @property
    def slots(self) -> Tensor:
        """The slots [k, c] as float32."""
        return self.values.float() * self.scale

    def wipe(self) -> None:
        """Overwrite the numbers with zeros, for every holder of this state."""
        self.values.zero_()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SegmentState):
            return NotImplemented
        same = (self.scale, self.tokens) == (other.scale, other.tokens)
        return same and torch.equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # a state can be wiped


def _half(number: float) -> float:
    """The number at the precision in which it is sent, never rounded to nothing."""
    return max(float(torch.tensor(number, dtype=torch.float16)), 2.0**-24) if number else 0.0


@dataclass(frozen=True)
class FusedState:
    """Closed segments, oldest first, with weights that sum to one."""

    segments: tuple[SegmentState, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class WindowState:
    """A window at one moment, as a value. ``active_s``: when either side was last heard.

    ``era``: how often the window has lost all it held; what it held in an earlier era is wiped.
    """

    closed: tuple[SegmentState, ...] = ()
    open: SegmentState | None = None
    active_s: float = -math.inf
    era: int = field(default=0, compare=False)


class StateWindow:
    """The last ``size`` segments of one session, weighted ``decay ** age``, gone after ``expiry_s`` of silence."""

    def __init__(self, size: int = 3, decay: float = 0.7, expiry_s: float = 3.0, segment_tokens: int = 48) -> None:
        if size < 1 or not 0 < decay <= 1 or expiry_s <= 0 or segment_tokens < 1:
            raise CodecError(
                f"window of size {size}, decay {decay}, expiry {expiry_s} s, {segment_tokens} tokens a segment:"
                " size and tokens start at 1, decay lies in (0, 1], expiry is above 0"
            )
        self.size, self.decay, self.expiry_s, self.segment_tokens = size, decay, expiry_s, segment_tokens
        self._now = WindowState()

    @property
    def open(self) -> SegmentState | None:
        """The segment being spoken."""
        return self._now.open

    @property
    def closed(self) -> tuple[SegmentState, ...]:
        """The finished segments, oldest first."""
        return self._now.closed

    def update(self, segment: SegmentState, now_s: float) -> None:
        """A chunk arrived: ``segment`` is what the open segment is now. It closes at its size limit."""
        self.touch(now_s)
        self._now = replace(self._now, open=segment)
        if segment.tokens >= self.segment_tokens:
            self.close_segment(now_s)

    def close_segment(self, now_s: float) -> None:
        """A pause: the open segment slides in, the oldest slides out."""
        self.expire(now_s)
        if self._now.open is not None:
            closed = (*self._now.closed, self._now.open)[-self.size :]
            self._now = replace(self._now, closed=closed, open=None)

    def touch(self, now_s: float) -> None:
        """One side is being heard now."""
        self.expire(now_s)
        self._now = replace(self._now, active_s=max(now_s, self._now.active_s))

    def expire(self, now_s: float) -> bool:
        """Zero and drop everything if neither side was heard for ``expiry_s``; True if anything was dropped."""
        if now_s - self._now.active_s < self.expiry_s:
            return False
        return self.clear()

    def clear(self) -> bool:
        """Zero and drop everything; True if there was anything."""
        held = (*self._now.closed, *([self._now.open] if self._now.open else []))
        for segment in held:
            segment.wipe()
        self._now = WindowState(era=self._now.era + 1)
        return bool(held)

    def fuse(self, now_s: float) -> FusedState:
        """What a reply that begins now may know: the closed segments and their weights."""
        self.expire(now_s)
        return fuse(self._now.closed, self.decay)

    def snapshot(self) -> WindowState:
        """The window as a value. What expires is wiped in snapshots too."""
        return self._now

    def restore(self, state: WindowState, now_s: float) -> None:
        """Hold again what ``state`` held, as if nothing had been said since.

        Time has passed all the same: what has expired stays gone, and who was heard meanwhile was heard.
        """
        self.expire(now_s)
        held = state if state.era == self._now.era else WindowState(era=self._now.era)
        self._now = replace(held, active_s=max(state.active_s, self._now.active_s))
        self.expire(now_s)


def fuse(segments: tuple[SegmentState, ...], decay: float) -> FusedState:
    """Segments, oldest first, weighted ``decay ** age`` (the newest has age 0), normalised."""
    raw = [decay**age for age in reversed(range(len(segments)))]
    return FusedState(segments, tuple(weight / sum(raw) for weight in raw))
