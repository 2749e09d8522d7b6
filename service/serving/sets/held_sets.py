"""The cache of frozen sets in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from refaug.core.errors import NotFound, TooLarge, Withdrawn
from refaug.core.home import Settings
from refaug.evaluation.scoring.reference_sets.set_store import ReferenceSets
from refaug.service import prometheus_figures
from refaug.service.server_settings import MIB, ServeSettings
from refaug.service.serving.sets.held_set import HeldSet, does_not_fit

_ITEMS: Final = ""  # the key of a set's items, among the keys of its metrics


class HeldSets:
    """A cache of frozen sets in memory, bounded in number and bytes; the least recently used go first.

    A set goes with everything that was prepared for it, and single metrics go before their set. All threads may use it.
    """

    def __init__(self, home: Settings, serve: ServeSettings) -> None:
        self._store = ReferenceSets(home.reference_sets)
        self._most_sets, self._most_bytes = serve.held_sets, serve.held_sets_mib * MIB
        self._held = dict[str, HeldSet]()
        self._sizes = OrderedDict[tuple[str, str], int]()  # of sets and metrics, in order of use
        self._refused = set[str]()  # sets that do not fit, so that they are not tried again
        self._reading = dict[str, threading.Lock]()
        self._lock = threading.Lock()

    def store(self) -> ReferenceSets:
        """Return the store of all sets of the home, held or not."""
        return self._store

    @property
    def bytes(self) -> int:
        """The memory that all held sets take, as far as it can be told."""
        with self._lock:
            return sum(self._sizes.values())

    def get(self, text: str) -> HeldSet:
        """Return a set by its id or the beginning of it, and read it if it is not held yet.

        Every call checks that the set still exists and is not withdrawn.
        """
        name = text if text in self._held else self._store.resolve(text)
        try:
            self._store.require_valid(name)
            self._require_there(name)
        except (Withdrawn, NotFound):
            with self._lock:
                self._drop(name)
            raise
        cached = self._held.get(name)
        prometheus_figures.cache("sets", hits=int(cached is not None), misses=int(cached is None))
        held = cached or self._read_once(name)
        self._note_use(held, _ITEMS, held.bytes)
        return held

    def _require_there(self, name: str) -> None:
        if not self._store.path_of(name).exists():
            raise NotFound(f"there is no reference set {name}", remedy="refaug sets list, or GET /v1/reference-sets")

    def _read_once(self, name: str) -> HeldSet:
        """Read a set while other requests for it wait."""
        with self._lock:
            reading = self._reading.setdefault(name, threading.Lock())
        with reading:
            if (held := self._held.get(name)) is not None:
                return held
            if name in self._refused:
                raise does_not_fit(f"the set {name}", self._most_bytes)
            try:
                held = HeldSet.read(self._store.open(name), self._most_bytes, self._note_use)
                with self._lock:  # both at once: every held set has a size
                    self._held[name], self._sizes[name, _ITEMS] = held, held.bytes
            except TooLarge:
                self._refused.add(name)
                raise
            finally:
                with self._lock:
                    self._reading.pop(name, None)
        return held

    def _note_use(self, held: HeldSet, key: str, size: int) -> None:
        """Note that a set, or one of its metrics, was used; drop what there is no room for."""
        with self._lock:
            name = held.manifest.id
            if self._held.get(name) is not held:
                return  # it was dropped meanwhile, and its last user frees it
            for used_key, used_bytes in ((key, size), (_ITEMS, held.bytes)):  # sets after their metrics: they go later
                self._sizes[name, used_key] = used_bytes
                self._sizes.move_to_end((name, used_key))
            self._make_room({(name, key), (name, _ITEMS)})

    def _make_room(self, in_use: Collection[tuple[str, str]]) -> None:
        """Drop the least recently used, but nothing that is in use now."""
        while len(self._held) > self._most_sets:
            self._drop(next(name for name, key in self._sizes if key == _ITEMS))
        while sum(self._sizes.values()) > self._most_bytes:
            oldest = next((entry for entry in self._sizes if entry not in in_use), None)
            if oldest is None:
                return
            name, key = oldest
            if key == _ITEMS:
                self._drop(name)
            else:
                del self._sizes[oldest]
                self._held[name].forget(key)

    def _drop(self, name: str) -> None:
        """Drop a set with everything that was prepared for it; requests that are using it go on."""
        self._held.pop(name, None)
        for entry in [entry for entry in self._sizes if entry[0] == name]:
            del self._sizes[entry]
