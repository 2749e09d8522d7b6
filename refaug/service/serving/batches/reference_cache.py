"""A cache of the weighted references of items, for requests that send the same items again.

Test sets are scored many times: for each system, each setting of a metric, each epoch. The references that an index and
a rater give an item are the same each time, so they are looked up as long as they fit into the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from refaug.core.memory import BoundedCache
from refaug.core.records import Item, Reference
from refaug.rater.language_coverage import Coverage
from refaug.scoring.settings import AugmentSettings
from refaug.service.serving.versions.leases import Lease

_REFERENCE_BYTES: Final = 1_100  # bytes of the objects around a reference's texts
_ITEM_BYTES: Final = 900


def _size_of_item(kept: Item) -> int:
    """Return the bytes of the references that are kept of an item, approximately."""
    shown = kept.search_notes.get("excluded_references", ())
    return _ITEM_BYTES + sum(map(_size_of, kept.references)) + sum(map(_shown_size, shown))


def _shown_size(excluded: Mapping[str, Any]) -> int:
    return _REFERENCE_BYTES + 2 * sum(len(value) for value in excluded.values() if isinstance(value, str))


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


class ReferenceCache(BoundedCache[bytes, tuple[Item, Coverage]]):
    """The most recently used references, up to a number of bytes; thread-safe.

    They are kept as an item with nothing else, and with how the rater's pieces cover the item's own texts.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes, lambda _key, kept: _size_of_item(kept[0]))

    @staticmethod
    def keys(lease: Lease, settings: AugmentSettings, items: Sequence[Item]) -> list[bytes]:
        """Return a key for each item of all that references depend on: versions, settings, the item without replies."""
        versions = lease.versions()
        rater = versions.get("rater", "") if settings.needs_rater else ""
        prefix = f"{versions.get('index', '')}\0{rater}\0{_written(settings)}\0".encode()
        texts = (repr(_searched_by(item)).encode("utf-8", "surrogatepass") for item in items)
        return [hashlib.blake2b(prefix + text, digest_size=16).digest() for text in texts]
