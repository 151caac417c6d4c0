"""Where a state's slots stand: every age has its own columns in front of the tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from codec.model import CodecConfig, CodecError
from codec.window import FusedState


def placed(states: Sequence[FusedState | None], config: CodecConfig) -> tuple[Tensor, Tensor]:
    """States, one a row, in their places: slots [B, size * k, c] and log-weights [B, size * k] (-inf: empty)."""
    slots = torch.zeros(len(states), config.window_slots, config.code_dims)
    log_weights = torch.full((len(states), config.window_slots), -torch.inf)
    for row, state in enumerate(states):
        if state is not None and state.segments:
            _place(state, slots[row], log_weights[row], config.slots)
    return slots, log_weights


def _place(state: FusedState, slots: Tensor, log_weights: Tensor, per_segment: int) -> None:
    """Write a state into its row: every age has its own columns, the newest last, empty slots on the left.

    A weight counts relative to the heaviest segment's: the newest slots weigh as much as a token of text, and by
    the decoder's gain more.
    """
    if len(state.segments) * per_segment > len(slots):
        raise CodecError(
            f"{len(state.segments)} segments do not fit a codec trained for a window of"
            f" {len(slots) // per_segment}: make the window smaller"
        )
    heaviest, end = max(state.weights), len(slots)
    for segment, weight in zip(reversed(state.segments), reversed(state.weights), strict=True):
        begin = end - len(segment.values)
        slots[begin:end] = segment.slots
        log_weights[begin:end] = math.log(weight / heaviest)
        end -= per_segment
