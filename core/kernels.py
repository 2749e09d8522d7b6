"""Loops that numba compiles: released from Python's lock, and kept on disk so that only the first call ever waits."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba

_log = logging.getLogger(__name__)
_DAMAGE: Final = (OSError, EOFError, pickle.UnpicklingError, ValueError, LookupError, AttributeError, TypeError)

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Compile a loop over arrays, with IEEE arithmetic in the order written."""
    return compiled_with()(loop)


def compiled_with(**options: Any) -> Callable[[Loop], Loop]:
    """Compile with further options of numba's, such as fastmath={"reassoc"} for sums that may be taken in lanes."""

    def compile_it(loop: Loop) -> Loop:
        settings = {"nogil": True, "error_model": "numpy", **options}
        try:
            kernel: Any = numba.njit(cache=True, **settings)(loop)
            kernel._cache = _Forgiving(kernel._cache)  # noqa: SLF001  numba has no door for this
        except RuntimeError:  # neither beside this file nor in the user's cache may anything be written
            kernel = numba.njit(cache=False, **settings)(loop)
        compiled_loop: Loop = kernel
        return compiled_loop

    return compile_it


class _Forgiving:
    """numba's cache on disk, without which all works as well: what cannot be read or written is compiled anew."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """A compiled loop, or None."""
        try:
            return self._cache.load_overload(signature, target)
        except _DAMAGE as error:
            _log.warning("kernel_cache_unreadable", extra={"path": self._cache.cache_path, "error": str(error)})
            self._empty()
            return None

    def save_overload(self, signature: Any, compiled_loop: Any) -> None:
        """Keep a compiled loop, if there is room for it."""
        try:
            self._cache.save_overload(signature, compiled_loop)
        except _DAMAGE as error:
            _log.warning("kernel_cache_unwritable", extra={"path": self._cache.cache_path, "error": str(error)})

    def _empty(self) -> None:
        """Forget what is damaged, so that it is written anew."""
        try:
            self._cache.flush()
        except _DAMAGE:
            _log.warning("kernel_cache_unwritable", extra={"path": self._cache.cache_path})
