"""Loops run as Python, for a few texts before numba is imported.

Python computes the same IEEE arithmetic in the same order as the compiled loop, so the results are equal to the last
bit. This holds for loops that use `math` for logarithms and powers: numpy has others, which differ in the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from refaug.core.kernels.kernel import Kernel, Loop

_COMPILER: Final = "refaug.core.kernels.compiler"


class PlainBudget:
    """How many steps of loops a process runs as Python before it imports numba: about half of the import's time.

    Threads that spend at the same time may exceed the budget by one call each.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def spend(self, count_steps: Callable[[], int]) -> bool:
        """Say whether so many steps are to be run as Python; they count from now on."""
        if _COMPILER in sys.modules:
            return False
        steps = count_steps()
        if steps > self.steps:
            return False
        self.steps -= steps
        return True


PLAIN_BUDGET: Final = PlainBudget(40_000)


def quickest(loop: Loop, count_steps: Callable[[], int], budget: PlainBudget = PLAIN_BUDGET) -> Loop:
    """Return the loop as Python while numba is not imported and the budget lasts; otherwise the compiled loop."""
    return plain_form(loop) if budget.spend(count_steps) else loop


def plain_form(loop: Loop) -> Loop:
    """Return a compiled loop as Python; the loops that it calls are Python, too."""
    plain = _plain(cast("Kernel", loop))

    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # compiled loops neither warn nor raise
            return plain(*arguments)

    return cast("Loop", run)


@cache
def _plain(kernel: Kernel) -> Callable[..., Any]:
    loop = cast("FunctionType", kernel.py_func)
    names: Sequence[str] = loop.__code__.co_names
    callees = {name: loop.__globals__[name] for name in names if isinstance(loop.__globals__.get(name), Kernel)}
    scope = {**loop.__globals__, **{name: _plain(callee) for name, callee in callees.items()}}
    return FunctionType(loop.__code__, scope, loop.__name__, loop.__defaults__)
