"""Whether bfloat16 pays on this processor: some have it in hardware, others only emulate it. Found by trying."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# It has to win by this much, for its rounding is coarse.
CLEARLY_FASTER = 1.5
GOES = 5


def bfloat16_pays(weights: Sequence[torch.Tensor], tokens: int) -> bool:
    """Whether so many tokens times these float32 weights ``[rows, columns]`` are clearly faster in bfloat16."""
    coarse = [weight.bfloat16() for weight in weights]
    return _seconds(coarse, tokens) * CLEARLY_FASTER < _seconds(weights, tokens)


def _seconds(weights: Sequence[torch.Tensor], tokens: int) -> float:
    """The best of several goes."""
    import torch

    x = torch.randn(tokens, weights[0].shape[1]).to(weights[0].dtype)
    best = float("inf")
    for _ in range(GOES):
        begin = time.perf_counter()
        for weight in weights:
            torch.nn.functional.linear(x, weight)
        best = min(best, time.perf_counter() - begin)
    return best
