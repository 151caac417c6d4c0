from __future__ import annotations

import math

import pytest
import torch

from codec.health import Calibration, entropy_bits
from codec.window import FusedState, SegmentState, fuse


def healthy(seed: int) -> torch.Tensor:
    """Slots as a codec makes them: dimensions of falling energy."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(8, 36, generator=draw) * 0.9 ** torch.arange(36)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return Calibration.measure([healthy(seed) for seed in range(200)])


def test_energy_spread_evenly_has_the_highest_entropy() -> None:
    assert entropy_bits(torch.ones(8, 16)) == pytest.approx(4.0)


def test_energy_in_one_dimension_has_none() -> None:
    assert entropy_bits(torch.eye(16)[:1]) == pytest.approx(0.0, abs=1e-5)


def test_states_never_seen_are_healthy_when_made_alike(calibration: Calibration) -> None:
    found = [calibration.judge(SegmentState.of(healthy(seed), 12)) for seed in range(1000, 1100)]
    assert [health.fault for health in found] == [""] * 100


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("collapsed", lambda slots: slots * torch.eye(36)[0]),
        ("collapsed", lambda slots: slots * 0),
        ("noise", lambda slots: torch.ones_like(slots)),
        ("saturated", lambda slots: slots * 40),
        ("not finite", lambda slots: slots * math.nan),
        ("not finite", lambda slots: slots * 1e30),
    ],
)
def test_a_sick_state_is_told_by_what_is_wrong_with_it(calibration: Calibration, name: str, spoil) -> None:  # type: ignore[no-untyped-def]
    assert calibration.judge(SegmentState.of(spoil(healthy(1)), 12)).fault.startswith(name)


def test_the_sickest_segment_speaks_for_the_window(calibration: Calibration) -> None:
    sick = SegmentState.of(healthy(2) * 40, 12)
    window = fuse((SegmentState.of(healthy(1), 12), sick, SegmentState.of(healthy(3), 12)), 0.7)
    health = calibration.judge_window(window)
    assert health is not None
    assert health.fault.startswith("saturated")


def test_an_empty_window_has_no_health(calibration: Calibration) -> None:
    assert calibration.judge_window(FusedState((), ())) is None
