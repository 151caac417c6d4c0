"""How healthy a state is: the entropy of its energy over the dimensions, and its distance from the usual.

Entropy tells saturation, collapse and noise; it cannot tell whether a state is relevant. The z-score looks at
every dimension by itself and sees what keeps the entropy but leaves the usual range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from codec.window import FusedState, SegmentState


@dataclass(frozen=True, slots=True)
class StateHealth:
    """``entropy_bits`` of the energy over the dimensions, ``z_score`` rms over them; ``fault`` "" when healthy."""

    entropy_bits: float
    z_score: float
    fault: str = ""


def entropy_bits(slots: Tensor) -> Tensor:
    """Entropy of the normalised energy over the dimensions of slots [..., k, c], in bits; 0 for no energy."""
    energy = slots.square().sum(-2)
    share = energy / energy.sum(-1, keepdim=True).clamp(min=1e-12)
    return -(share * share.clamp(min=1e-12).log2()).sum(-1)


def deviation(slots: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Root mean square over slots and dimensions of how many spreads slots [..., k, c] are from the mean [c]."""
    return ((slots - mean) / spread.clamp(min=1e-6)).square().mean((-2, -1)).sqrt()


@dataclass(frozen=True)
class Calibration:
    """What healthy states look like, measured on the training segments: mean and spread [c], and the limits."""

    mean: Tensor
    spread: Tensor
    lowest_entropy: float
    highest_entropy: float
    highest_z: float

    @classmethod
    def measure(cls, segments: list[Tensor], slack: float = 1.5) -> Calibration:
        """From the slots [k, c] of healthy segments; the limits lie ``slack`` times outside of what was seen."""
        every = torch.cat(segments)
        mean, spread = every.mean(0), every.std(0)
        entropies = torch.stack([entropy_bits(slots) for slots in segments])
        distances = torch.stack([deviation(slots, mean, spread) for slots in segments])
        middle = float(entropies.median())
        return cls(
            mean,
            spread,
            lowest_entropy=middle - slack * (middle - float(entropies.min())),
            highest_entropy=middle + slack * (float(entropies.max()) - middle),
            highest_z=slack * float(distances.max()),
        )

    def judge(self, segment: SegmentState) -> StateHealth:
        """The health of one segment."""
        slots = segment.slots
        if not math.isfinite(segment.scale) or not bool(slots.isfinite().all()):
            return StateHealth(math.nan, math.inf, "not finite")
        entropy = float(entropy_bits(slots))
        distance = float(deviation(slots, self.mean, self.spread))
        return StateHealth(entropy, distance, self._fault(entropy, distance))

    def judge_window(self, state: FusedState) -> StateHealth | None:
        """The worst segment of a window; None when it is empty."""
        healths = [self.judge(segment) for segment in state.segments]
        return max(healths, key=lambda health: (bool(health.fault), health.z_score), default=None)

    def _fault(self, entropy: float, distance: float) -> str:
        if entropy < self.lowest_entropy:
            return f"collapsed: entropy {entropy:.2f} bits is below {self.lowest_entropy:.2f}"
        if entropy > self.highest_entropy:
            return f"noise: entropy {entropy:.2f} bits is above {self.highest_entropy:.2f}"
        if distance > self.highest_z:
            return f"saturated: {distance:.1f} spreads from the usual, at most {self.highest_z:.1f} expected"
        return ""
