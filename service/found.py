"""References that were found lately, kept for whoever asks for the same item again.

Test sets are scored again and again: for every system, every setting of a metric, every epoch. What an index and a
rater have to say of an item is the same each time, so it is looked up, as long as there is room for it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from core.records import Item, Reference
from rater.coverage import Coverage
from service.augment import Augmented, AugmentSettings
from service.engine import Lease

_EACH_REFERENCE: Final = 1_100  # bytes of the objects around a reference's texts
_EACH_ITEM: Final = 900


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What was found for an item."""

    references: tuple[Reference, ...]
    excluded: Mapping[str, int]
    note: str
    coverage: Coverage  # of the item's own texts, in the rater's pieces
    size: int  # about how many bytes it takes

    @classmethod
    def of(cls, found: Augmented, coverage: Coverage) -> Kept:
        """All but the item itself, whose replies are another request's."""
        references = found.item.pair.references
        return cls(
            references=references,
            excluded=found.excluded,
            note=found.note,
            coverage=coverage,
            size=_EACH_ITEM + sum(map(_size_of, references)),
        )

    def given_to(self, item: Item) -> Augmented:
        """The same for an item that asks the same."""
        pair = replace(item.pair, references=self.references)
        return Augmented(item=replace(item, pair=pair), excluded=self.excluded, note=self.note)


def _size_of(reference: Reference) -> int:
    texts = sum(len(value) for value in reference.more.values() if isinstance(value, str))
    return _EACH_REFERENCE + 2 * (len(reference.text) + texts)


class KeptReferences:
    """Those that were asked for last, in at most so many bytes; for any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._held = most_bytes, 0
        self._kept = OrderedDict[bytes, Kept]()
        self._lock = threading.Lock()

    @staticmethod
    def key(lease: Lease, settings: AugmentSettings, item: Item) -> bytes:
        """Names all that what is found depends on: the versions, the settings, and the item without its replies."""
        versions = lease.versions()
        rater = versions.get("rater", "") if settings.needs_rater else ""
        asked = f"{versions.get('index', '')}\0{rater}\0{settings!r}\0".encode()
        pair = repr(item.pair).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(asked + pair, digest_size=16).digest()

    def get(self, key: bytes) -> Kept | None:
        """What was found, if it is still there; it becomes the newest."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: bytes, kept: Kept) -> None:
        """Keep it; the oldest go where there is no room."""
        with self._lock:
            if key in self._kept or kept.size > self._most:
                return
            self._kept[key] = kept
            self._held += kept.size
            while self._held > self._most:
                self._held -= self._kept.popitem(last=False)[1].size
