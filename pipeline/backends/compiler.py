"""numba, told of this processor before it compiles anything: once it was asked for a function it asks no more."""

from __future__ import annotations

import platform

import llvmlite.binding
import numba

# The order of float sums is the compiler's choice, made once: every row runs through the same code.
FAST = {"reassoc", "contract", "arcp", "nsz"}

if platform.machine() in ("x86_64", "AMD64"):
    # LLVM keeps to half of the vector width on processors that had to slow down for the whole.
    numba.config.CPU_NAME = llvmlite.binding.get_host_cpu_name()  # type: ignore[attr-defined]
    features = llvmlite.binding.get_host_cpu_features().flatten()
    numba.config.CPU_FEATURES = f"{features},-prefer-256-bit"  # type: ignore[attr-defined]

njit = numba.njit
