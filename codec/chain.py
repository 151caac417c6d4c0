"""A chain of states through a long recording: the last segments by themselves, all before them merged into one."""

from __future__ import annotations

from collections.abc import Sequence

from codec.memory import SegmentEncoder
from codec.window import FusedState, SegmentState, fuse

CHAIN_DECAY = 0.92  # a long recording fades more slowly than a conversation


class StateChain:
    """What a block of a recording begins with: all that was said before it, never more than a full window."""

    def __init__(self, encoder: SegmentEncoder, size: int = 3, decay: float = CHAIN_DECAY) -> None:
        self._encoder, self._size, self._decay = encoder, size, decay
        self._held: tuple[SegmentState, ...] = ()

    @property
    def state(self) -> FusedState:
        """What was said so far, oldest first."""
        return fuse(self._held, self._decay)

    def push(self, segments: Sequence[SegmentState]) -> None:
        """The segments of the next block; where they are too many the oldest become one."""
        held = (*self._held, *segments)
        while len(held) > self._size:
            held = (self._encoder.join(held[0], held[1]), *held[2:])
        self._held = held
