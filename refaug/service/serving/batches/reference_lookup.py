"""The references of a request's items: those in the cache, and those that are found for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refaug.core.records import Item
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.rater.language_coverage import Coverage
from refaug.service.serving.batches.reference_cache import ReferenceCache
from refaug.service.serving.versions.leases import Lease


class ReferenceLookup:
    """The items of a request, with the references that are known so far."""

    def __init__(self, cache: ReferenceCache, lease: Lease, items: Sequence[Item], settings: AugmentSettings) -> None:
        self._cache, self._items = cache, items
        self._rater = lease.rater if settings.needs_rater else None
        self._keys = cache.keys(lease, settings, items)
        self._known = [cache.get(key) for key in self._keys]
        self.missing = [place for place, known in enumerate(self._known) if known is None]

    def missing_items(self) -> list[Item]:
        """Return the items whose references were not in the cache."""
        return [self._items[place] for place in self.missing]

    def add(self, augmented: Sequence[Item], coverages: Sequence[Coverage]) -> None:
        """Add the references of the missing items, and store them in the cache, without the rest of the item."""
        for place, one, coverage in zip(self.missing, augmented, coverages, strict=True):
            references = Item(id=one.id, references=one.references, search_notes=one.search_notes)
            self._known[place] = known = references, coverage
            if "missing_shards" not in one.search_notes:  # these may answer the next time
                self._cache.put(self._keys[place], known)

    def augmented(self) -> tuple[list[Item], tuple[str, ...]]:
        """Return the items with their references, and a warning where the rater does not know their language."""
        known = [one for one in self._known if one is not None]
        coverage = sum((coverage for _, coverage in known), Coverage())
        warning = None if self._rater is None else self._rater.unfamiliar(coverage)
        augmented = [
            replace(item, references=references.references, search_notes=references.search_notes)
            for item, (references, _) in zip(self._items, known, strict=True)
        ]
        return augmented, () if warning is None else (warning,)
