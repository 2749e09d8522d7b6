"""Loops that become machine code when they are first called.

Importing numba takes longer than most first scores, so a module with loops does not import it: the first call does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, update_wrapper
from types import FunctionType
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def frozen(array: AnyArray) -> AnyArray:
    """Return a view that only allows reading: a loop is compiled for one kind of array, not for two."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view  # type: ignore[return-value]


Loop = TypeVar("Loop", bound=Callable[..., Any])

KERNELS: Final = list["Kernel"]()  # every loop of the modules that are imported


class Kernel:
    """A loop that numba compiles; `py_func` is the loop as written.

    Compiled loops may call each other: numba asks for `_numba_type_` of a name that a loop uses.
    """

    def __init__(self, loop: Callable[..., Any], options: dict[str, object]) -> None:
        self.py_func: Final = loop
        self._options: Final = options
        self._dispatcher: Any = None
        update_wrapper(self, loop)
        KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled loop."""
        return (self._dispatcher or self.dispatcher)(*arguments)

    @property
    def dispatcher(self) -> Any:
        """What numba made of the loop; threads that come here together share one dispatcher."""
        if self._dispatcher is None:
            from refaug.core.kernels.compiler import dispatcher_of  # noqa: PLC0415  imports numba

            self._dispatcher = self.__dict__.setdefault(
                "_shared_dispatcher", dispatcher_of(self.py_func, self._options)
            )
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_


def compiled(loop: Loop) -> Loop:
    """Compile a loop over arrays, with IEEE arithmetic in the order written."""
    return compiled_with()(loop)


def compiled_with(**options: Any) -> Callable[[Loop], Loop]:
    """Compile with further options of numba's, such as fastmath={"reassoc"} for sums that may be taken in lanes."""

    def make_kernel(loop: Loop) -> Loop:
        return cast("Loop", Kernel(loop, options))

    return make_kernel


def load_compiler() -> None:
    """Import numba now, so that no request waits for it."""
    import refaug.core.kernels.compiler  # noqa: F401, PLC0415


# ── Loops run as Python, for a few texts before numba is imported ─────────────────────────────────────────────────────
#
# Python computes the same IEEE arithmetic in the same order as the compiled loop, so the results are equal to the
# last bit. This holds for loops that use `math` for logarithms and powers: numpy has others, which differ in the last
# bit.

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
