"""The engine of a process: indexes, raters, rubers and adems stay open between calls, one engine for each home.

A name stands for the version that is published now, so a call after a publication uses the new version. Versions that
were not used last are closed when the last call on them has ended.

A forked child starts with a new engine: FAISS, torch and numba cannot use their threads in a child, so there each uses
one thread. What the parent had open stays untouched.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.core.processes.forking import held_over_fork

if TYPE_CHECKING:
    from refaug.evaluation.metric_setup.metric_requests import BaselineCache
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.rater.adem.scorer.adem import Adem
    from refaug.rater.rating import Rater
    from refaug.rater.ruber.network import Relevance

T = TypeVar("T")

_MOST_OPEN: Final = 3  # versions of each kind


class _OpenVersions(Generic[T]):
    """The versions of one kind that were used last."""

    def __init__(self, home: Settings, kind: str, open_version: Callable[[str], T]) -> None:
        self._home, self._kind, self._open_version = home, kind, open_version
        self._opened = BoundedCache[str, T](_MOST_OPEN)
        self._lock = held_over_fork(threading.RLock())

    def get(self, spec: str) -> T:
        """Return a version by `name` or `name@version`."""
        name = "@".join(artefact_stores(self._home)[self._kind].resolve(spec.partition("#")[0]))
        with self._lock:  # also while it is opened, so that two threads open it only once
            opened = self._opened.get(name)
            if opened is None:
                opened = self._open_version(name)
                self._opened.put(name, opened)
            return opened


class Engine:
    """What a process has open of one home; thread-safe."""

    def __init__(self, home: Settings, threads: int | None = None) -> None:
        self.home, self.threads = home, threads
        self._indexes = _OpenVersions(home, "index", self._open_index)
        self._raters = _OpenVersions(home, "rater", self._open_rater)
        self._rubers = _OpenVersions(home, "ruber", self._open_ruber)
        self._adems = _OpenVersions(home, "adem", self._open_adem)

    def index(self, spec: str) -> ReferenceIndex:
        """Return an index."""
        return self._indexes.get(spec)

    def rater(self, spec: str) -> Rater:
        """Return a rater."""
        return self._raters.get(spec)

    def ruber(self, spec: str) -> Relevance:
        """Return a ruber."""
        return self._rubers.get(spec)

    def adem(self, spec: str) -> Adem:
        """Return an adem."""
        return self._adems.get(spec)

    @cached_property
    def baselines(self) -> BaselineCache:
        """The b of weighted forms in indexes."""
        from refaug.evaluation.metric_setup.metric_requests import BaselineCache  # noqa: PLC0415  numpy

        return BaselineCache(artefact_stores(self.home)["index"])

    def _open_index(self, spec: str) -> ReferenceIndex:
        from refaug.evaluation.home.indexes import open_index  # noqa: PLC0415  faiss

        index = open_index(self.home, spec, threads=self.threads)
        for held in (index.held, index.sources.held):
            if held is not None:
                weakref.finalize(index, held.close)  # a call in another thread may still use what is dropped here
        return index

    def _open_rater(self, spec: str) -> Rater:
        from refaug.evaluation.home.raters import open_rater  # noqa: PLC0415  torch

        return open_rater(self.home, spec, threads=self.threads)

    def _open_ruber(self, spec: str) -> Relevance:
        from refaug.evaluation.home.rubers import open_ruber  # noqa: PLC0415  torch

        return open_ruber(self.home, spec, threads=self.threads)

    def _open_adem(self, spec: str) -> Adem:
        from refaug.evaluation.home.adems import open_stored_adem  # noqa: PLC0415  torch

        return open_stored_adem(self.home, spec, threads=self.threads)


@dataclass
class _Process:
    """The engines of this process, by home."""

    engines: dict[Path, Engine]
    lock: threading.RLock
    threads: int | None = None  # None: as many as there are cores
    parents: tuple[Any, ...] = ()  # engines of the process that this one was forked from: never used, never closed


_process = _Process({}, held_over_fork(threading.RLock()))


def engine_of(home: str | os.PathLike[str] | None = None) -> Engine:
    """Return the engine of a home; None stands for REFAUG_HOME, else ./refaug-data."""
    settings = Settings.from_env() if home is None else Settings(home=Path(home).expanduser())
    place = settings.home.absolute()
    with _process.lock:
        engine = _process.engines.get(place)
        if engine is None:
            settings.require_whole()
            engine = Engine(Settings(home=place, quiet=True), _process.threads)
            _process.engines[place] = engine
        return engine


def _start_anew_in_child() -> None:
    """Forget the engines of the parent, and use one thread: the threads of libraries do not exist in a child."""
    global _process  # noqa: PLW0603  the state of the process begins anew
    _process = _Process({}, held_over_fork(threading.RLock()), threads=1, parents=(_process,))
    faiss_calls = sys.modules.get("refaug.indexer.nearest.faiss_calls")
    if faiss_calls is not None:
        faiss_calls.set_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)
