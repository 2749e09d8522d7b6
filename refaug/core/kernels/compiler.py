"""How numba compiles loops: released from Python's lock, and kept on disk so that only an installation ever waits.

What an installation has compiled lies beside the code and is read by every process of every user, also where none may
write there; a wheel brings there what was compiled for common processors. What is compiled later is kept where numba
finds a place: in the folder that NUMBA_CACHE_DIR names, else beside the code, else in the user's cache.
core/kernels/kernel_cache.py says what state all this is in.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

import numba
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from refaug.core.files import is_private
from refaug.core.processes.forking import held_over_fork

_log = logging.getLogger(__name__)
_compiling = logging.getLogger("refaug.compiling")  # for the command line, which must not import numba to listen
_DAMAGE: Final = (OSError, EOFError, pickle.UnpicklingError, ValueError, LookupError, AttributeError, TypeError)


# What a wheel brings is compiled for these processors, those since about 2015: NUMBA_CPU_NAME and NUMBA_CPU_FEATURES
# when it is built (`make dist`).
COMMON: Final = ("x86-64-v3", "")
_COMMON_FEATURES: Final = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")

_numba: Final[Any] = config  # whose names it makes when it is imported
held_over_fork(global_compiler_lock._lock)  # noqa: SLF001  a child that inherits it locked waits for its first loop


def dispatcher_of(loop: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return numba's dispatcher of a loop, which compiles for the types of its first call or reads a cache."""
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", **options)(loop)
    dispatcher._cache = _Caches(loop)  # noqa: SLF001  numba has no door for this
    return dispatcher


def _stamps(loop: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """The state of the files that hold the loops which a loop calls, so that no stale copy of theirs is used."""
    loops, waiting = {loop}, [loop]
    while waiting:
        caller = waiting.pop()
        named = (getattr(caller.__globals__.get(name), "py_func", None) for name in caller.__code__.co_names)
        new = {callee for callee in named if callee is not None} - loops
        loops |= new
        waiting += new
    files = {Path(each.__code__.co_filename) for each in loops}
    return tuple((path.name, _hash_of(path)) for path in sorted(files) if path.exists())


@cache
def _hash_of(path: Path) -> str:
    """Of its content: times do not survive the way into an image."""
    return sha256(path.read_bytes()).hexdigest()


class _BesideTheCode(InTreeCacheLocator):
    """The folder beside the code, to be read: whether it may be written as well is not asked."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Self | None:
        """A place for every loop that lies in a file."""
        return cls(py_func, py_file) if os.path.exists(py_file) else None  # noqa: PTH110  its superclass has strings

    def ensure_cache_path(self) -> None:
        """It is there, or there is nothing to read."""


class _InstalledImpl(CompileResultCacheImpl):
    _locator_classes = [_BesideTheCode]  # noqa: RUF012  numba's


class _Installed(FunctionCache):
    """What lies beside the code."""

    _impl_class = _InstalledImpl


def _opened(kind: Any, loop: Any) -> Any:
    """Return numba's cache of a loop; None where it finds no folder, or one that others may write: it holds pickles."""
    try:
        opened = kind(loop)
    except RuntimeError:
        return None
    if not is_private(Path(opened.cache_path)):
        _log.warning("kernel_cache_not_private", extra={"path": opened.cache_path})
        return None
    return opened


@cache
def _is_common() -> bool:
    """Whether this processor runs what is compiled for common ones; none does that loops are to be compiled for."""
    features = binding.get_host_cpu_features()
    return _numba.CPU_NAME is None and all(features.get(feature) for feature in _COMMON_FEATURES)


def compile_for_this_processor() -> None:
    """Take no loops from now on that are compiled for common processors: this one may have faster instructions."""
    _is_common.cache_clear()
    _numba.CPU_NAME = binding.get_host_cpu_name()


def _load_compiled(loop_cache: Any, signature: Any, target: Any) -> Any:
    """Return a compiled loop out of a cache, or None.

    `FunctionCache.load_overload` prepares the compiler first, which takes as long as importing numba. A loop that is
    compiled needs numba's runtime alone; numba prepares the compiler when it compiles.
    """
    rtsys.initialize(target)
    compiled: Any = loop_cache._load_overload(signature, target)  # noqa: SLF001
    if compiled is None and _is_common():
        signature, (triple, *_), code = loop_cache._index_key(signature, target.codegen())  # noqa: SLF001
        stored = loop_cache._cache_file.load((signature, (triple, *COMMON), code))  # noqa: SLF001
        compiled = None if stored is None else loop_cache._impl.rebuild(target, stored)  # noqa: SLF001
    return compiled


class _Caches:
    """Where a loop may lie compiled; all works without, as well: what cannot be read or written is compiled anew."""

    def __init__(self, loop: Any) -> None:
        self._own: Any = _opened(FunctionCache, loop)  # None where neither folder may be written
        installed: Any = _opened(_Installed, loop)  # None for a loop that comes from no file
        caches = [cache for cache in (self._own, installed) if cache is not None]
        if len(caches) == 2 and self._own.cache_path == installed.cache_path:
            caches.remove(installed)
        self._caches = caches
        for loop_cache in caches:
            file = loop_cache._cache_file  # noqa: SLF001  numba looks at the loop's own file alone
            file._source_stamp = (file._source_stamp, _stamps(loop))  # noqa: SLF001

    @property
    def cache_path(self) -> str | None:
        """Where what is compiled from now on is kept."""
        path: str | None = self._own.cache_path if self._own is not None else None
        return path

    def load_overload(self, signature: Any, target: Any) -> Any:
        """A compiled loop, or None."""
        for loop_cache in self._caches:
            try:
                overload = _load_compiled(loop_cache, signature, target)
            except _DAMAGE as error:
                _log.warning("kernel_cache_unreadable", extra={"path": loop_cache.cache_path, "error": str(error)})
                if loop_cache is self._own:
                    self._empty()
            else:
                if overload is not None:
                    return overload
        _compiling.debug("kernel_compiling")
        return None

    def save_overload(self, signature: Any, compiled_loop: Any) -> None:
        """Keep a compiled loop, if there is room for it."""
        if self._own is None:
            return
        try:
            self._own.save_overload(signature, compiled_loop)
        except _DAMAGE as error:
            _log.warning("kernel_cache_unwritable", extra={"path": self._own.cache_path, "error": str(error)})

    def _empty(self) -> None:
        """Forget what is damaged, so that it is written anew."""
        try:
            self._own.flush()
        except _DAMAGE:
            _log.warning("kernel_cache_unwritable", extra={"path": self._own.cache_path})


def _fetch(_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        elements = make_array(signature.args[0])(context, builder, arguments[0]).data  # type: ignore[no-untyped-call]
        address = builder.gep(elements, [arguments[1]])
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(fetch, [address, flag(0), flag(3), flag(1)])  # to read, to keep in all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


# In compiled loops, fetch_ahead(array, index) asks for a number of a flat array that will be read soon: where places
# are scattered over much memory, waiting for them is most of the time. What lies beyond the array does no harm.
fetch_ahead: Final[Any] = intrinsic(_fetch)
