"""Numbers of bfloat16 in compiled loops."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from pipeline.backends.bfloats import rounded, widened


@njit
def there_and_back(x: np.float32) -> np.float32:
    return widened(rounded(x))


@njit
def as_it_is(x: np.float32) -> np.float32:
    return widened(x)


def test_they_are_the_numbers_that_torch_has() -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    theirs = torch.from_numpy(x).bfloat16().float().numpy()
    assert [there_and_back(one) for one in x] == list(theirs)


def test_a_wide_number_stays_what_it_is() -> None:
    assert as_it_is(np.float32(0.1)) == np.float32(0.1)
