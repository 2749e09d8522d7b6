"""Loops that numba compiles: released from Python's lock, and kept on disk so that only the first call ever waits."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

_log = logging.getLogger(__name__)
_DAMAGE: Final = (OSError, EOFError, pickle.UnpicklingError, ValueError, LookupError, AttributeError, TypeError)

Loop = TypeVar("Loop", bound=Callable[..., Any])
AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def compiled(loop: Loop) -> Loop:
    """Compile a loop over arrays, with IEEE arithmetic in the order written."""
    return compiled_with()(loop)


def compiled_with(**options: Any) -> Callable[[Loop], Loop]:
    """Compile with further options of numba's, such as fastmath={"reassoc"} for sums that may be taken in lanes."""

    def compile_it(loop: Loop) -> Loop:
        settings = {"nogil": True, "error_model": "numpy", **options}
        try:
            kernel: Any = numba.njit(cache=True, **settings)(loop)
            kernel._cache = _Forgiving(kernel._cache, loop)  # noqa: SLF001  numba has no door for this
        except RuntimeError:  # neither beside this file nor in the user's cache may anything be written
            kernel = numba.njit(cache=False, **settings)(loop)
        compiled_loop: Loop = kernel
        return compiled_loop

    return compile_it


def _stamps(loop: Callable[..., Any]) -> tuple[tuple[str, int, int], ...]:
    """The state of the files that hold the loops which a loop calls, so that no stale copy of theirs is used."""
    loops, waiting = {loop}, [loop]
    while waiting:
        caller = waiting.pop()
        named = (getattr(caller.__globals__.get(name), "py_func", None) for name in caller.__code__.co_names)
        new = {callee for callee in named if callee is not None} - loops
        loops |= new
        waiting += new
    files = {Path(each.__code__.co_filename) for each in loops}
    states = ((path, path.stat()) for path in sorted(files) if path.exists())
    return tuple((path.name, state.st_mtime_ns, state.st_size) for path, state in states)


class _Forgiving:
    """numba's cache on disk, without which all works as well: what cannot be read or written is compiled anew."""

    def __init__(self, cache: Any, loop: Callable[..., Any]) -> None:
        self._cache = cache
        file = cache._cache_file  # noqa: SLF001
        file._source_stamp = (file._source_stamp, _stamps(loop))  # noqa: SLF001  numba looks at the loop's own file alone

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


def _fetch(_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, arguments[0]).data  # type: ignore[no-untyped-call]
        address = builder.gep(data, [arguments[1]])
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(fetch, [address, flag(0), flag(3), flag(1)])  # to read, to keep in all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


# In compiled loops, fetch_ahead(array, index) asks for a number of a flat array that will be read soon: where places
# are scattered over much memory, waiting for them is most of the time. What lies beyond the array does no harm.
fetch_ahead: Final[Any] = intrinsic(_fetch)


def frozen(array: AnyArray) -> AnyArray:
    """A view that only allows reading, whatever it is given: a loop is compiled for one kind of array, not for two."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view  # type: ignore[return-value]
