"""The cache of frozen sets in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from refaug.core.errors import NotFound, TooLarge, Withdrawn
from refaug.core.memory import BoundedCache
from refaug.scoring.held_sets.held_set import HeldSet, does_not_fit
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.reference_sets.set_store import ReferenceSets

_ITEMS: Final = ""  # the key of a set's items, among the keys of its metrics


class _Part(NamedTuple):
    """The items of a held set, or one of its metrics."""

    held: HeldSet
    bytes: int


class HeldSets:
    """A cache of frozen sets in memory, bounded in number and bytes; the least recently used go first.

    `looked_up` is called with the numbers of sets that were held and that were not. A set goes with everything that was
    prepared for it, and single metrics go before their set. All threads may use it.
    """

    def __init__(
        self,
        models: ModelRegistry,
        *,
        most: int,
        most_bytes: int,
        looked_up: Callable[[int, int], None] = lambda _hits, _misses: None,
    ) -> None:
        self._models, self._store = models, ReferenceSets(models.home.reference_sets)
        self._most_bytes, self._looked_up = most_bytes, looked_up
        self._held = BoundedCache[str, HeldSet](most)
        self._parts = BoundedCache[tuple[str, str], _Part](self._most_bytes, lambda _place, part: part.bytes)
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
            return self._parts.size

    def get(self, text: str) -> HeldSet:
        """Return a set by its id or the beginning of it, and read it if it is not held yet.

        Every call checks that the set still exists and is not withdrawn.
        """
        if (held := self.get_held(text)) is not None:
            return held
        name = self._store.resolve(text)
        self._require_usable(name)
        cached = self._held.get(name)
        self._looked_up(int(cached is not None), int(cached is None))
        held = cached or self._read_once(name)
        self._note_use(held, _ITEMS, held.bytes)
        return held

    def get_held(self, text: str) -> HeldSet | None:
        """Return a set that is in memory, if this is its whole id; quick enough for an event loop."""
        if (held := self._held.get(text)) is None:
            return None
        self._require_usable(text)
        self._looked_up(1, 0)
        self._note_use(held, _ITEMS, held.bytes)
        return held

    def _require_usable(self, name: str) -> None:
        """Raise an error, and forget the set, if it was withdrawn or its file is gone."""
        try:
            self._store.require_valid(name)
            self._require_there(name)
        except (Withdrawn, NotFound):
            with self._lock:
                self._drop(name)
            raise

    def _require_there(self, name: str) -> None:
        if not self._store.is_there(name):
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
                held = HeldSet.read(self._store.open(name), self._models, self._most_bytes, self._note_use)
                with self._lock:  # both at once: every held set has its items among the parts
                    for dropped, _ in self._held.put(name, held):
                        self._drop(dropped)
                    self._store_part((name, _ITEMS), _Part(held, held.bytes))
            except TooLarge:
                self._refused.add(name)
                raise
            finally:
                with self._lock:
                    self._reading.pop(name, None)
        return held

    def _note_use(self, held: HeldSet, key: str, size: int) -> None:
        """Note that a set, or one of its metrics, was used; other sets and metrics make room for it."""
        with self._lock:
            name = held.manifest.id
            if self._held.get(name) is not held:
                return  # it was dropped meanwhile, and its last user frees it
            items = name, _ITEMS
            self._parts.get(items)
            if key != _ITEMS:
                self._store_part((name, key), _Part(held, size))  # fits beside the items, so it does not drop them
                self._parts.get(items)  # once more: a set goes after its metrics

    def _store_part(self, place: tuple[str, str], part: _Part) -> None:
        """Note the size of a part; forget metrics that it leaves no room for, and sets without room for their items."""
        for (name, key), dropped in self._parts.put(place, part):
            if key == _ITEMS:
                self._drop(name)
            else:
                dropped.held.forget(key)

    def _drop(self, name: str) -> None:
        """Drop a set with everything that was prepared for it; requests that are using it go on."""
        self._held.pop(name)
        for place in self._parts:
            if place[0] == name:
                self._parts.pop(place)
