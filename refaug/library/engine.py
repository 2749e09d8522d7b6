"""The engine of a process: indexes and models stay open between calls, one engine for each home.

A name stands for the version that is published now, so a call after a publication uses the new version. Versions that
were not used last are closed when the last call on them has ended.

A forked child starts with a new engine: FAISS, torch and numba cannot use their threads in a child, so there each uses
one thread. What the parent had open stays untouched.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.processes.forking import held_over_fork
from refaug.core.processes.kept import cached_property
from refaug.core.processes.passive_waiting import TORCH_SPINS
from refaug.scoring.metric_setup.model_registry import ModelRegistry

if TYPE_CHECKING:
    from refaug.scoring.augmentation import ReferenceCache
    from refaug.scoring.held_sets.held_set import HeldSets
    from refaug.scoring.metric_setup.metric_requests import BaselineCache

# as much as a server has by default
_KNOWN_BYTES: Final = 256 << 20
_MOST_SETS: Final = 64
_SET_BYTES: Final = 1 << 30


class Engine(ModelRegistry):
    """What a process has open of one home; thread-safe."""

    @cached_property
    def baselines(self) -> BaselineCache:
        """The b of weighted forms in indexes."""
        from refaug.scoring.metric_setup.metric_requests import BaselineCache  # noqa: PLC0415  numpy

        return BaselineCache(artefact_stores(self.home)["index"])

    @cached_property
    def known_references(self) -> ReferenceCache:
        """The references of items that were looked up lately, by the versions that found and rated them."""
        from refaug.scoring.augmentation import ReferenceCache  # noqa: PLC0415  faiss

        return ReferenceCache(_KNOWN_BYTES)

    @cached_property
    def held_sets(self) -> HeldSets:
        """The frozen sets that were scored against lately."""
        from refaug.scoring.held_sets.held_set import HeldSets  # noqa: PLC0415  compiles

        return HeldSets(self, most=_MOST_SETS, most_bytes=_SET_BYTES)


@dataclass
class _Process:
    """The engines of this process, by home."""

    engines: dict[Path, Engine]
    lock: threading.RLock
    threads: int | None = 1 if TORCH_SPINS else None  # None: as many as there are cores
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
