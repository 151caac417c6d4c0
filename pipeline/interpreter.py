"""The interpreter while programs and models are loaded, which is another load than conversations are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Threads that load run Python all the time: the more often they take turns, the longer all of them take.
SWITCH_INTERVAL_S = 0.005


@contextmanager
def starting() -> Iterator[None]:
    """What comes into being in this block stays, so it is not walked for garbage, in it or after it.

    Walking it again and again took a fifth of a start, and a later walk would stop the sound for 0.2 s.
    """
    collected, interval_s = gc.isenabled(), sys.getswitchinterval()
    if collected:
        gc.collect()  # what is garbage already would stay, too
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.freeze()
        if collected:
            gc.enable()
