"""Loops that become machine code when they are first called.

Importing numba takes longer than most first scores, so a module with loops does not import it: the first call does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final, TypeVar, cast

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
