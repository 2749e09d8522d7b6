"""The references of a request's items: those in the cache, and those that are found for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refaug.core.records import Item
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import Augmented
from refaug.rater.language_coverage import Coverage
from refaug.service.serving.batches.reference_cache import CachedReferences, ReferenceCache
from refaug.service.serving.versions.leases import Lease


@dataclass(frozen=True, kw_only=True)
class AugmentedItems:
    """Items with their references, in the order given, with warnings for the user."""

    items: list[Augmented]
    warnings: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The shards that had no part in the references of some item."""
        return sorted({shard for item in self.items for shard in item.missing}, key=int)


class ReferenceLookup:
    """The items of a request, with the references that are known so far."""

    def __init__(self, cache: ReferenceCache, lease: Lease, items: Sequence[Item], settings: AugmentSettings) -> None:
        self._cache, self._items = cache, items
        self._rater = lease.rater if settings.needs_rater else None
        self._keys = cache.keys(lease, settings, items)
        self._references = [cache.get(key) for key in self._keys]
        self.missing = [place for place, references in enumerate(self._references) if references is None]

    def missing_items(self) -> list[Item]:
        """Return the items whose references were not in the cache."""
        return [self._items[place] for place in self.missing]

    def add(self, augmented_items: Sequence[Augmented], coverages: Sequence[Coverage]) -> None:
        """Add the references of the missing items, and store them in the cache."""
        for place, augmented, coverage in zip(self.missing, augmented_items, coverages, strict=True):
            self._references[place] = references = CachedReferences.of(augmented, coverage)
            if not references.missing:  # the shards may answer the next time
                self._cache.put(self._keys[place], references)

    def augmented_items(self) -> AugmentedItems:
        """Return the items with their references, and a warning where the rater does not know their language."""
        complete = [references for references in self._references if references is not None]
        coverage = sum((references.coverage for references in complete), Coverage())
        warning = None if self._rater is None else self._rater.unfamiliar(coverage)
        return AugmentedItems(
            items=[references.apply_to(item) for item, references in zip(self._items, complete, strict=True)],
            warnings=() if warning is None else (warning,),
        )
