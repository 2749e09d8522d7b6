"""How a rater does in use: what it rates the references that an index finds, in figures and for people to read.

A rater may tell good responses from wrong ones in its own examples, and still be of no use among references: those all
answer utterances like the test utterance, and where it gives them about the same weight, they might as well have one.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from core.errors import BadInput
from core.items import BadItem
from core.progress import Progress
from core.records import Item, Origin, Reference
from core.text import normalise
from indexer.index import ReferenceIndex
from metrics.correlation import Correlation, pearson, spearman
from metrics.resampling import Floats
from rater.checkpoint import StoredRater
from rater.rate import Rater
from service.augment import Augmented, AugmentSettings, augment, provenance

EXAMPLES: Final = 50  # test pairs that are shown to be read
ALIKE: Final = 0.1  # ratings of one test pair's references that are nearer to each other are about the same
_BINS: Final = 40  # of ratings, from -1 to 1
_SIMILARITY_BINS: Final = 40  # from -1 to 1
_NONE_FOUND: Final = "none_found"


@dataclass(frozen=True, kw_only=True)
class AboutRater:
    """The rater that is reported on: its name, what it was made of, and the report of its training."""

    spec: str
    id: str
    logs: tuple[str, ...]
    network: Mapping[str, Any]
    training: Mapping[str, Any]

    @classmethod
    def of(cls, spec: str, stored: StoredRater, training: Mapping[str, Any]) -> AboutRater:
        """Out of what a version holds."""
        return cls(
            spec=spec,
            id=stored.id,
            logs=tuple(stored.details.get("logs", ())),
            network=asdict(stored.config),
            training=training,
        )


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts between edges; the last bin holds its upper edge too."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SimilarityBin:
    """References of like similarity: how many, their mean similarity, mean rating and the middle half of ratings."""

    count: int
    similarity: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class RetrievedFigures:
    """What retrieved references are rated; None where there are too few for a figure."""

    pairs: int  # test pairs that were looked at
    rated_pairs: int  # those that got rated references
    without: Mapping[str, int]  # the others, by why
    references: int
    mean: float | None
    quartiles: tuple[float, float, float] | None
    above_0: float | None  # share of references
    alike: float | None  # share of the pairs with two rated references or more, where all are about the same
    median_spread: float | None  # from the lowest to the highest rating of a pair
    spearman: float | None  # of rating with similarity
    pearson: float | None
    histogram: Histogram
    by_similarity: tuple[SimilarityBin, ...]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A test pair to be read: its references, the weightiest first."""

    id: str
    utterance: str
    golds: tuple[str, ...]
    references: tuple[Reference, ...]  # parrot and retrieved

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "id": self.id,
            "utterance": self.utterance,
            "golds": list(self.golds),
            "references": [
                {
                    "text": one.text,
                    "source": one.source.value,
                    "weight": one.weight,
                    "rating": one.rating,
                    "similarity": one.similarity,
                    "utterance": answered(one),
                }
                for one in self.references
            ],
        }


@dataclass(frozen=True, kw_only=True)
class LookedAt:
    """What came of looking for references and rating them."""

    made_by: Mapping[str, str]  # as in signatures
    pairs_from: str
    figures: RetrievedFigures
    examples: tuple[Example, ...]
    bad_items: tuple[BadItem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RaterReport:
    """All that is reported; `retrieved` is None where no index was named."""

    about: AboutRater
    retrieved: LookedAt | None = field(default=None)

    def as_json(self) -> dict[str, Any]:
        """For machines, without a time: equal reports are equal bytes."""
        about = {
            "rater": self.about.spec,
            "id": self.about.id,
            "logs": list(self.about.logs),
            "network": dict(self.about.network),
            "training": dict(self.about.training),
        }
        if self.retrieved is None:
            return {**about, "retrieved": None}
        looked = self.retrieved
        retrieved = {
            "made_by": dict(looked.made_by),
            "pairs_from": looked.pairs_from,
            **asdict(looked.figures),
            "bad_items": [str(one) for one in looked.bad_items],
            "examples": [one.as_json() for one in looked.examples],
        }
        return {**about, "retrieved": retrieved}


def answered(reference: Reference) -> str | None:
    """The utterance that a retrieved reference answered."""
    found = reference.more.get("utterance")
    return found if isinstance(found, str) else None


def made_report(
    about: AboutRater,
    rater: Rater,
    index: ReferenceIndex,
    pairs: Iterable[Item | BadItem],
    settings: AugmentSettings,
    progress: Progress | None = None,
    *,
    pairs_from: str,
    examples: int = EXAMPLES,
    of_the_index: bool = False,
) -> RaterReport:
    """Find and rate references for test pairs; of any number of these only numbers are held, and the first examples.

    Test pairs that are themselves `of_the_index` would find the other responses to their own utterance: these are left
    out, since a test pair from elsewhere has none.
    """
    tally, shown, bad = _Tally(), list[Example](), list[BadItem]()
    for one in augment(pairs, index, rater, settings, progress):
        if isinstance(one, BadItem):
            bad.append(one)
            continue
        counted = _of_other_utterances(one) if of_the_index else one
        if tally.add(counted) and len(shown) < examples:
            shown.append(_example(counted.item))
    if not tally.pairs:
        raise BadInput(f"there are no test pairs in {pairs_from}", remedy="one item a line: docs/items.md")
    looked = LookedAt(
        made_by=provenance(index, rater, settings),
        pairs_from=pairs_from,
        figures=tally.figures(),
        examples=tuple(shown),
        bad_items=tuple(bad),
    )
    return RaterReport(about=about, retrieved=looked)


def _of_other_utterances(one: Augmented) -> Augmented:
    """Without what answered the test utterance itself."""
    own = normalise(one.item.pair.utterance or "")
    kept = tuple(each for each in one.item.pair.references if normalise(answered(each) or "") != own)
    return replace(one, item=replace(one.item, pair=replace(one.item.pair, references=kept)))


def _example(item: Item) -> Example:
    found = [one for one in item.pair.references if not one.is_own]
    return Example(
        id=item.id,
        utterance=item.pair.utterance or "",
        golds=tuple(one.text for one in item.pair.references if one.source is Origin.GOLD),
        references=tuple(sorted(found, key=lambda one: -(one.weight or 0.0))),
    )


class _Tally:
    """Sixteen bytes a reference and eight a test pair: no text is kept."""

    def __init__(self) -> None:
        self.pairs = self._rated_pairs = 0
        self._without = Counter[str]()
        self._ratings, self._similarities, self._spreads = array("d"), array("d"), array("d")

    def add(self, one: Augmented) -> bool:
        """Count a test pair; whether it has rated references."""
        self.pairs += 1
        found = [
            (reference.rating, reference.similarity)
            for reference in one.item.pair.references
            if reference.source is Origin.RETRIEVED
        ]
        rated = [(rating, similarity) for rating, similarity in found if rating is not None and similarity is not None]
        if not rated:
            self._without[one.note or _NONE_FOUND] += 1
            return False
        self._rated_pairs += 1
        ratings = [rating for rating, _ in rated]
        self._ratings.extend(ratings)
        self._similarities.extend(similarity for _, similarity in rated)
        if len(ratings) > 1:
            self._spreads.append(max(ratings) - min(ratings))
        return True

    def figures(self) -> RetrievedFigures:
        """What the numbers come to."""
        ratings, similarities, spreads = map(np.array, (self._ratings, self._similarities, self._spreads))
        counts, edges = np.histogram(ratings, bins=_BINS, range=(-1, 1))
        some, several = len(ratings) > 0, len(spreads) > 0
        return RetrievedFigures(
            pairs=self.pairs,
            rated_pairs=self._rated_pairs,
            without=dict(sorted(self._without.items())),
            references=len(ratings),
            mean=float(ratings.mean()) if some else None,
            quartiles=_quartiles(ratings) if some else None,
            above_0=float((ratings > 0).mean()) if some else None,
            alike=float((spreads <= ALIKE).mean()) if several else None,
            median_spread=float(np.median(spreads)) if several else None,
            spearman=_value(spearman, similarities, ratings),
            pearson=_value(pearson, similarities, ratings),
            histogram=Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist())),
            by_similarity=tuple(_by_similarity(similarities, ratings)),
        )


def _quartiles(values: Floats) -> tuple[float, float, float]:
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return low, median, high


def _value(correlation: Callable[[Floats, Floats], Correlation], similarities: Floats, ratings: Floats) -> float | None:
    return correlation(similarities, ratings).value


def _by_similarity(similarities: Floats, ratings: Floats) -> Iterator[SimilarityBin]:
    """Bins that are not empty, the least similar first; BM25 knows no upper bound, so its last bin is all above."""
    numbers = np.clip(((similarities + 1) / 2 * _SIMILARITY_BINS).astype(np.int64), 0, _SIMILARITY_BINS - 1)
    for number in np.unique(numbers):
        here = ratings[numbers == number]
        low, _, high = _quartiles(here)
        yield SimilarityBin(
            count=len(here),
            similarity=float(similarities[numbers == number].mean()),
            mean=float(here.mean()),
            low=low,
            high=high,
        )
