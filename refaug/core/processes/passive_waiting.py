"""How threads of numeric libraries wait for each other: asleep.

By default they spin at every barrier. Where another process has work, that takes the core on which the awaited thread
would run: a training with two threads on two busy cores then takes many times as long as with one.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final

# for GNU's and for LLVM's OpenMP; some builds of torch bring the one, some the other
PASSIVE_WAITING: Final[Mapping[str, str]] = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
    "KMP_BLOCKTIME": "0",
}


def wait_passively(environment: MutableMapping[str, str]) -> None:
    """Set the variables that are not set; the libraries read them when they are loaded."""
    for name, setting in PASSIVE_WAITING.items():
        environment.setdefault(name, setting)
