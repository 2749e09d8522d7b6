"""How threads of numeric libraries wait for each other: asleep.

By default they spin at every barrier. Where another process has work, that takes the core on which the awaited thread
would run: work on two threads and two busy cores then takes many times as long as on one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

_POLICY: Final = "OMP_WAIT_POLICY"
# For GNU's and for LLVM's OpenMP, of which some builds of torch bring the one, some the other; for numpy's BLAS, the
# binary logarithm of the cycles that it spins, which is 4 at least.
_PASSIVE: Final[Mapping[str, str]] = {
    _POLICY: "PASSIVE",
    "GOMP_SPINCOUNT": "0",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_THREAD_TIMEOUT": "4",
}


def _wait_passively() -> bool:
    """Set the variables that are not set, and return whether torch, loaded before, has missed them.

    The libraries read them when they are loaded. A policy that is set already is the user's, and nothing is changed.
    """
    if _POLICY in os.environ:
        return False
    for name, setting in _PASSIVE.items():
        os.environ.setdefault(name, setting)
    return "torch" in sys.modules


# Whether raters should use one thread, which waits for no other; decided as `refaug` is imported.
TORCH_SPINS: Final = _wait_passively()
