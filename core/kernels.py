"""Loops that numba compiles: released from Python's lock, and kept on disk so that only the first call ever waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Compile a loop over arrays, with IEEE arithmetic in the order written."""
    return compiled_with()(loop)


def compiled_with(**options: Any) -> Callable[[Loop], Loop]:
    """Compile with further options of numba's, such as fastmath={"reassoc"} for sums that may be taken in lanes."""

    def compile_it(loop: Loop) -> Loop:
        settings = {"nogil": True, "error_model": "numpy", **options}
        try:
            kernel: Loop = numba.njit(cache=True, **settings)(loop)
        except RuntimeError:  # neither beside this file nor in the user's cache may anything be written
            kernel = numba.njit(cache=False, **settings)(loop)
        return kernel

    return compile_it
