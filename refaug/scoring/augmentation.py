"""Retrieve, rate and weight references: test pairs in, the same pairs with weighted references out.

The module does no HTTP and prints nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from refaug.core.memory import BoundedCache
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.search.index import ReferenceIndex
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import TRIPLET_UNITS, WITHOUT_GOLD, Rater, RatingRequest
from refaug.scoring.items import BadItem, item_json
from refaug.scoring.provenance import with_provenance
from refaug.scoring.settings import AugmentSettings, find_preset
from refaug.scoring.spooled_items.item_collection import blocks_of

BATCH_SIZE: Final = 200  # test pairs that are held in memory at a time
# Test pairs after which a rater forgets what it has read: so the ratings of a block depend on this block alone, and
# are the same to the last bit wherever it is rated.
BLOCK_SIZE: Final = 5 * BATCH_SIZE
_GOLDS_READ: Final = 20  # of an item, which tell its language
_FOUND_UNITS: Final = 2_000  # of reading a text that is found, about


def found_json(found: Item, provenance: str) -> dict[str, object]:
    """Return an item as a line of a test file, with the provenance of its references; golds show their weight."""
    return {**item_json(with_provenance(_with_gold_weights(found), provenance)), **found.search_notes}


def missing_shards(items: Iterable[Item]) -> list[str]:
    """Return the shards that had no part in the references of some item."""
    return sorted({shard for one in items for shard in one.search_notes.get("missing_shards", ())}, key=int)


def _with_gold_weights(test_item: Item) -> Item:
    """Return the item with a weight of one for golds that have no other, since that is what they count."""
    references = tuple(
        replace(reference, weight=1.0) if _weighs_one(reference) else reference for reference in test_item.references
    )
    return replace(test_item, references=references)


def _weighs_one(reference: Reference) -> bool:
    return reference.source is Origin.GOLD and reference.weight is None and not reference.is_unused


def augment(
    items: Iterable[Item | BadItem],
    index: ReferenceIndex,
    rater: Rater | None,
    settings: AugmentSettings,
    progress: Progress | None = None,
) -> Iterator[Item | BadItem]:
    """Yield every item with further references, in the order given; retrieved and parrot references are replaced.

    An item without an utterance, or without a gold where one is needed, keeps the references that it came with. Its
    `search_notes` have the number of excluded pairs by reason, and why nothing was found. At the end a warning tells of
    test pairs in a language that the rater does not know.
    """
    settings.require_rater(rater)
    require_preset_index(index, settings)
    progress = progress or Silent()
    progress.stage("references", None, "items")
    coverage = Coverage()
    for batch, coverages in augmented_batches(items, index, rater, settings):
        coverage = sum(coverages, coverage)
        yield from batch
        progress.advance(len(batch))
    if rater is not None and (warning := rater.unfamiliar(coverage)) is not None:
        progress.warn(warning)


def augmented_batches(
    items: Iterable[Item | BadItem], index: ReferenceIndex, rater: Rater | None, settings: AugmentSettings
) -> Iterator[tuple[list[Item | BadItem], list[Coverage]]]:
    """Yield items with further references, batch by batch, and how the rater's tokenizer cuts the texts of each."""
    for number, (_, batch) in enumerate(blocks_of(items, BATCH_SIZE)):
        usable = [item for item in batch if isinstance(item, Item)]
        coverages = [Coverage()] * len(usable)
        if rater is not None and settings.needs_rater:
            if number % (BLOCK_SIZE // BATCH_SIZE) == 0:
                rater.forget_texts()
            coverages = [rater.coverage(own_texts(item)) for item in usable]
        found = retrieve(usable, index, settings)
        to_rate = [request for _, request in found if request is not None]
        ratings = iter(rater.rate(to_rate, settings) if rater is not None else ())
        augmented = (one if request is None else with_ratings(one, next(ratings), settings) for one, request in found)
        yield [next(augmented) if isinstance(one, Item) else one for one in batch], coverages


def search_units(test_item: Item) -> float:
    """Return an upper bound of the work of a search, in the units of metrics, by the lengths of the item's texts."""
    return 0.4 * (len(test_item.utterance or "") + sum(len(reference.text) for reference in test_item.references))


def rating_units(test_item: Item, settings: AugmentSettings) -> int:
    """Return an upper bound of the work of rating its references; those that are found are taken for short ones."""
    if not settings.needs_rater:
        return 0
    utterance = test_item.utterance or ""
    golds = [reference for reference in test_item.references if reference.source is Origin.GOLD]
    rated = golds if settings.gold == "rated" else ()
    parrot = (Reference(text=utterance),) if settings.parrot == "rated" else ()
    own = RatingRequest(utterance=utterance, golds=tuple(gold.text for gold in golds), candidates=(*rated, *parrot))
    retrieved_count = settings.k if settings.weights == "rated" else 0
    return own.units + retrieved_count * (TRIPLET_UNITS * max(1, len(golds)) + _FOUND_UNITS)


def require_preset_index(index: ReferenceIndex, settings: AugmentSettings) -> None:
    """Raise Usage where the settings name a preset that the index was not built with."""
    if (preset := find_preset(settings.preset)) is not None:
        preset.require_index(index.spec.partition("#")[0], index.manifest)


def own_texts(test_item: Item) -> list[str]:
    """Return texts of the test pair itself that the rater reads, whose language counts: the utterance, and golds."""
    golds = (reference.text for reference in test_item.references if reference.source is Origin.GOLD)
    return [test_item.utterance or "", *islice(golds, _GOLDS_READ)]


def retrieve(
    items: Sequence[Item], index: ReferenceIndex, settings: AugmentSettings
) -> list[tuple[Item, RatingRequest | None]]:
    """Return the items with all their references, and what is to be rated of each: these have no weight yet."""
    searched = [_without_golds(item) for item in items] if settings.gold == "none" else items
    retrieved = index.search(searched, settings, excluded=settings.show_excluded)
    return [_with_references(item, found, settings) for item, found in zip(items, retrieved, strict=True)]


def _with_references(test_item: Item, found: Item, settings: AugmentSettings) -> tuple[Item, RatingRequest | None]:
    """Return the item with all its references, and what is to be rated of them.

    References that cannot be rated are dropped: a reference without a weight would spoil the item.
    """
    references, notes = _all_references(test_item, found, settings), found.search_notes
    request = _rating_request(test_item, references, settings)
    if request is None:
        usable = tuple(reference for reference in references if reference.is_own or reference.weight is not None)
        if len(usable) < len(references):
            notes = {"note": "no_gold", **notes}
        references = usable
    return replace(test_item, references=references, search_notes=notes), request


def _without_golds(test_item: Item) -> Item:
    """Return the item as it is searched for where golds play no part."""
    further = (reference for reference in test_item.references if reference.source is not Origin.GOLD)
    return replace(test_item, references=tuple(further))


def _rating_request(
    test_item: Item, references: Sequence[Reference], settings: AugmentSettings
) -> RatingRequest | None:
    """Return what is to be rated; None where nothing is, or there is no gold to rate against."""
    golds = tuple(gold.text for gold in references if gold.source is Origin.GOLD and gold.text.strip())
    golds = WITHOUT_GOLD if settings.gold == "none" else golds
    candidates = tuple(_candidate(reference) for reference in references if _is_rated(reference, settings))
    if not candidates or not golds or not (test_item.utterance or "").strip():
        return None
    return RatingRequest(utterance=test_item.utterance or "", golds=golds, candidates=candidates)


def with_ratings(found: Item, ratings: Sequence[float], settings: AugmentSettings) -> Item:
    """Return an item that `retrieve` has found references for with the ratings of its candidates, in their order."""
    references = list(found.references)
    rated = [place for place, reference in enumerate(references) if _is_rated(reference, settings)]
    for place, rating in zip(rated, ratings, strict=True):
        references[place] = _weighted(references[place], rating, rating)
    return replace(found, references=tuple(references))


def _all_references(test_item: Item, retrieved: Item, settings: AugmentSettings) -> tuple[Reference, ...]:
    """Return its golds and supplied references, then the parrot, then the retrieved references.

    The retrieved references already have their weights where no rater is needed for them.
    """
    own = tuple(_without_rating(reference, settings) for reference in test_item.references if reference.is_own)
    parrot = list[Reference]()
    if settings.parrot != "off" and test_item.utterance is not None and test_item.utterance.strip():
        weight = None if settings.parrot == "rated" else float(settings.parrot)
        parrot.append(Reference(text=test_item.utterance, source=Origin.PARROT, weight=weight))
    weight = 1.0 if settings.weights == "one" else None
    references: Sequence[Reference] = retrieved.references
    if weight is not None:
        references = tuple(_weighted(reference, weight, None) for reference in references)
    return (*own, *parrot, *references)


def _weighted(reference: Reference, weight: float | None, rating: float | None) -> Reference:
    """Return the reference with this weight and rating; `replace` is several times slower, and there are many."""
    return Reference(
        text=reference.text,
        source=reference.source,
        weight=weight,
        similarity=reference.similarity,
        rating=rating,
        utterance=reference.utterance,
        more=reference.more,
    )


def _without_rating(reference: Reference, settings: AugmentSettings) -> Reference:
    """Return a gold without the rating of an earlier run; a supplied reference stays as it is."""
    if reference.source is not Origin.GOLD:
        return reference
    return replace(reference, weight=None, rating=None, is_unused=settings.gold == "none")


def _is_rated(reference: Reference, settings: AugmentSettings) -> bool:
    if reference.source is Origin.GOLD:
        return settings.gold == "rated"
    if reference.source is Origin.PARROT:
        return settings.parrot == "rated"
    return reference.source is Origin.RETRIEVED and settings.weights == "rated"


def _candidate(reference: Reference) -> Reference:
    """Return the reference with the utterance that it answered in the log; a gold answers the test utterance."""
    is_of_log = reference.source is Origin.RETRIEVED or reference.utterance is None
    return reference if is_of_log else replace(reference, utterance=None)


# ── A cache of the weighted references of items, for requests and calls with the same items again ─────────────────────
#
# Test sets are scored many times: for each system, each setting of a metric, each epoch. The references that an index
# and a rater give an item are the same each time, so they are looked up as long as they fit into the cache.

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
    def keys(
        index: ReferenceIndex | None, rater: Rater | None, settings: AugmentSettings, items: Sequence[Item]
    ) -> list[bytes]:
        """Return a key for each item of all that references depend on: versions, settings, the item without replies.

        The rater is the one that rates, None where nothing is rated.
        """
        versions = (tool.spec if tool is not None else "" for tool in (index, rater))
        prefix = "\0".join((*versions, _written(settings), "")).encode()
        texts = (repr(_searched_by(item)).encode("utf-8", "surrogatepass") for item in items)
        return [hashlib.blake2b(prefix + text, digest_size=16).digest() for text in texts]


# ── The references of some items: those in the cache, and those that are found now ────────────────────────────────────


class ReferenceLookup:
    """Items, with the references that are known so far."""

    def __init__(
        self,
        cache: ReferenceCache,
        index: ReferenceIndex | None,
        rater: Rater | None,
        items: Sequence[Item],
        settings: AugmentSettings,
    ) -> None:
        self._cache, self._items = cache, items
        self._rater = rater if settings.needs_rater else None
        self._keys = cache.keys(index, self._rater, settings, items)
        self._known = [cache.get(key) for key in self._keys]
        self.missing = [place for place, known in enumerate(self._known) if known is None]
        self.size = len(items)

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
