"""A cache of the weighted references of items, for requests that send the same items again.

Test sets are scored many times: for each system, each setting of a metric, each epoch. The references that an index and
a rater give an item are the same each time, so they are looked up as long as they fit into the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from refaug.core.memory.bounded_cache import BoundedCache
from refaug.core.records import Item, Reference
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import Augmented
from refaug.rater.language_coverage import Coverage
from refaug.service.serving.versions.leases import Lease

_REFERENCE_BYTES: Final = 1_100  # bytes of the objects around a reference's texts
_ITEM_BYTES: Final = 900


@dataclass(frozen=True, kw_only=True)
class CachedReferences:
    """The weighted references of one item."""

    references: tuple[Reference, ...]
    excluded: Mapping[str, int]
    note: str
    excluded_references: tuple[Reference, ...]
    coverage: Coverage  # how the rater's pieces cover the item's own texts
    size: int  # bytes, approximately
    missing: tuple[str, ...] = ()  # shards without a part in them; such references are not stored

    @classmethod
    def of(cls, augmented: Augmented, coverage: Coverage) -> CachedReferences:
        """Take the references and leave the item, since its replies belong to one request."""
        references = augmented.item.references
        return cls(
            references=references,
            excluded=augmented.excluded,
            note=augmented.note,
            excluded_references=augmented.excluded_references,
            coverage=coverage,
            missing=augmented.missing,
            size=_ITEM_BYTES + sum(map(_size_of, (*references, *augmented.excluded_references))),
        )

    def apply_to(self, scored_item: Item) -> Augmented:
        """Return an item with these references; its key must be the one they were stored under."""
        return Augmented(
            item=replace(scored_item, references=self.references),
            excluded=self.excluded,
            note=self.note,
            excluded_references=self.excluded_references,
            missing=self.missing,
        )


def _size_of(reference: Reference) -> int:
    texts = sum(len(value) for value in reference.more.values() if isinstance(value, str))
    return _REFERENCE_BYTES + 2 * (len(reference.text) + len(reference.utterance or "") + texts)


@lru_cache(maxsize=64)
def _written(settings: AugmentSettings) -> str:
    """Return settings as a text; most requests have the same ones."""
    return repr(settings)


def _searched_by(test_item: Item) -> tuple[object, ...]:
    """Return all of an item that its references depend on."""
    fields = (test_item.id, test_item.turns, test_item.references)
    return (*fields, test_item.dialogue, test_item.time, test_item.exclude)


class ReferenceCache(BoundedCache[bytes, CachedReferences]):
    """The most recently used references, up to a number of bytes; thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes, lambda _key, references: references.size)

    @staticmethod
    def keys(lease: Lease, settings: AugmentSettings, items: Sequence[Item]) -> list[bytes]:
        """Return a key for each item of all that references depend on: versions, settings, the item without replies."""
        versions = lease.versions()
        rater = versions.get("rater", "") if settings.needs_rater else ""
        prefix = f"{versions.get('index', '')}\0{rater}\0{_written(settings)}\0".encode()
        texts = (repr(_searched_by(item)).encode("utf-8", "surrogatepass") for item in items)
        return [hashlib.blake2b(prefix + text, digest_size=16).digest() for text in texts]
