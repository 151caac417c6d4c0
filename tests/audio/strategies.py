"""Streams of sound cut into pieces of any size, for properties of the form: pieces equal the whole."""

import numpy as np
from hypothesis import strategies as st

from audio.format import Samples

cuts = st.lists(st.integers(0, 2500), max_size=12)


def noise(samples: int) -> Samples:
    """Sound in which no two stretches are alike."""
    return np.random.default_rng(samples).uniform(-0.5, 0.5, samples).astype(np.float32)


def pieces_of(sound: Samples, sizes: list[int]) -> list[Samples]:
    """The sound in pieces of these sizes, some perhaps empty, with all that is left as the last one."""
    return np.split(sound, np.minimum(np.cumsum(sizes, dtype=int), len(sound)))
