"""Forks of a process with threads: a lock that another thread holds at that moment stays locked in the child for ever.

The main names:

- `held_over_fork`: a lock that a fork waits for, so that the child gets it free and what it guards whole.

A fork waits for imports of other threads, too: the child has the half of the module that was imported, and waits for
the thread that was to import the rest. After `_LONGEST_WAIT_S` the process forks all the same; the child gets the
registered locks free, then.
"""

from __future__ import annotations

import _imp
import importlib
import os
import threading
import time
import weakref
from typing import Any, Final

_LONGEST_WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.005


def held_over_fork(lock: threading.RLock) -> threading.RLock:
    """Return the lock, which every fork of this process waits for from now on; the thread that forks may hold it."""
    _forks.register(lock)
    return lock


class _Forks:
    """The registered locks, and what the fork that is under way holds of them."""

    def __init__(self) -> None:
        self._references = list[weakref.ref[Any]]()
        self._one_at_a_time = threading.RLock()
        self._held = list[Any]()
        self._imports_held = False

    def register(self, lock: threading.RLock) -> None:
        """Take in a lock, for as long as it exists."""
        self._references.append(weakref.ref(lock, self._references.remove))

    def prepare(self) -> None:
        """Take all locks and the one of imports, with no import under way in another thread.

        A thread that imports may wait for one of the locks, and a thread that holds one may import: so nothing stays
        held while this waits.
        """
        self._one_at_a_time.acquire()
        end = time.monotonic() + _LONGEST_WAIT_S
        while not self._take_all() and time.monotonic() < end:
            self._give_back()
            time.sleep(_PAUSE_S)

    def continue_in_parent(self) -> None:
        """Give all locks back."""
        self._give_back()
        self._one_at_a_time.release()

    def begin_in_child(self) -> None:
        """Give all locks back, and renew those that threads hold which do not exist here."""
        held = {id(lock) for lock in self._held}
        for lock in (lock for lock in self._locks() if id(lock) not in held):
            lock._at_fork_reinit()  # noqa: SLF001  as threading and logging renew theirs
        self.continue_in_parent()

    def _locks(self) -> list[Any]:
        return [lock for reference in tuple(self._references) if (lock := reference()) is not None]

    def _take_all(self) -> bool:
        for lock in self._locks():
            if not lock.acquire(timeout=_PAUSE_S):
                return False
            self._held.append(lock)
        _imp.acquire_lock()
        self._imports_held = True
        return not _other_thread_imports()

    def _give_back(self) -> None:
        if self._imports_held:
            self._imports_held = False
            _imp.release_lock()
        while self._held:
            self._held.pop().release()


def _other_thread_imports() -> bool:
    """Return whether a thread besides this one is inside an import; no other can begin one while the lock is held."""
    own = threading.get_ident()
    module_locks: dict[str, Any] = getattr(importlib, "_bootstrap")._module_locks  # noqa: B009, SLF001  no other door
    owners = (getattr(reference(), "owner", None) for reference in list(module_locks.values()))
    return any(owner not in (None, own) for owner in owners)


_forks: Final = _Forks()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.prepare, after_in_parent=_forks.continue_in_parent, after_in_child=_forks.begin_in_child
    )
