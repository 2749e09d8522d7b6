"""Report how a rater does in use: its ratings of the references that an index retrieves, as figures and as examples.

A rater may tell good responses from wrong ones in its validation examples, and still be of no use for references: these
all answer utterances like the test utterance, and where they all get about the same weight, the rater adds nothing.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.statistics.correlation import Correlation, pearson, spearman
from refaug.metrics.statistics.resampling import Floats
from refaug.rater.rating import Rater
from refaug.rater.stored_raters import StoredAnyRater
from refaug.scoring.augmentation import augment
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings

EXAMPLES: Final = 50  # test pairs that the report shows
ALIKE: Final = 0.1  # ratings of one test pair's references within this range are about the same
_BINS: Final = 40  # of ratings, from -1 to 1
_SIMILARITY_BINS: Final = 40  # from -1 to 1
_NONE_FOUND: Final = "none_found"


@dataclass(frozen=True, kw_only=True)
class RaterDescription:
    """The rater of a report: its name, what it was made of, and the report of its training."""

    spec: str
    id: str
    logs: tuple[str, ...]
    network: Mapping[str, Any]
    training: Mapping[str, Any]

    @classmethod
    def of(cls, spec: str, stored: StoredAnyRater, training: Mapping[str, Any]) -> RaterDescription:
        """Describe a stored version of a rater."""
        return cls(
            spec=spec,
            id=stored.id,
            logs=tuple(stored.details.get("logs", ())),
            network=asdict(stored.config),
            training=training,
        )


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts between edges; the last bin includes its upper edge."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SimilarityBin:
    """References of about one similarity: their number, mean similarity, and the mean and quartiles of ratings."""

    count: int
    similarity: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class RetrievedFigures:
    """Figures on the ratings of retrieved references; None where there are too few references."""

    pairs: int  # test pairs
    rated_pairs: int  # test pairs with rated references
    without: Mapping[str, int]  # test pairs without, by reason
    references: int
    mean: float | None
    quartiles: tuple[float, float, float] | None
    above_0: float | None  # share of references
    alike: float | None  # share, of pairs with two or more rated references, whose ratings are about the same
    median_spread: float | None  # median distance from the lowest to the highest rating of a pair
    spearman: float | None  # of rating with similarity
    pearson: float | None
    histogram: Histogram
    by_similarity: tuple[SimilarityBin, ...]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A test pair for people to read, with its references by falling weight."""

    id: str
    utterance: str
    golds: tuple[str, ...]
    references: tuple[Reference, ...]  # parrot and retrieved

    def as_json(self) -> dict[str, object]:
        """Return the example as JSON."""
        return {
            "id": self.id,
            "utterance": self.utterance,
            "golds": list(self.golds),
            "references": [
                {
                    "text": reference.text,
                    "source": reference.source.value,
                    "weight": reference.weight,
                    "rating": reference.rating,
                    "similarity": reference.similarity,
                    "utterance": reference.utterance,
                }
                for reference in self.references
            ],
        }


@dataclass(frozen=True, kw_only=True)
class RetrievalReport:
    """The figures and examples of references that were retrieved and rated."""

    made_by: Mapping[str, str]  # the provenance, as in signatures
    pairs_from: str
    figures: RetrievedFigures
    examples: tuple[Example, ...]
    bad_items: tuple[BadItem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RaterReport:
    """The whole report; `retrieved` is None where no index was named."""

    about: RaterDescription
    retrieved: RetrievalReport | None = field(default=None)

    def as_json(self) -> dict[str, object]:
        """Return the report as JSON, without a time: equal reports are equal bytes."""
        about = {
            "rater": self.about.spec,
            "id": self.about.id,
            "logs": list(self.about.logs),
            "network": dict(self.about.network),
            "training": dict(self.about.training),
        }
        if self.retrieved is None:
            return {**about, "retrieved": None}
        retrieval = self.retrieved
        retrieved = {
            "made_by": dict(retrieval.made_by),
            "pairs_from": retrieval.pairs_from,
            **asdict(retrieval.figures),
            "bad_items": [str(bad) for bad in retrieval.bad_items],
            "examples": [example.as_json() for example in retrieval.examples],
        }
        return {**about, "retrieved": retrieved}


def report_on_rater(
    about: RaterDescription,
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
    """Retrieve and rate references for test pairs; only numbers and the first examples stay in memory.

    Test pairs that are themselves `of_the_index` would retrieve the other responses to their utterance: these are left
    out, since other test pairs have no such responses.
    """
    tally, shown, bad = _RetrievedTally(), list[Example](), list[BadItem]()
    for augmented in augment(pairs, index, rater, settings, progress):
        if isinstance(augmented, BadItem):
            bad.append(augmented)
            continue
        counted = _without_own_responses(augmented) if of_the_index else augmented
        if tally.add(counted) and len(shown) < examples:
            shown.append(_example(counted))
    if not tally.pairs:
        raise BadInput(f"there are no test pairs in {pairs_from}", remedy="one item a line: docs/items.md")
    retrieval = RetrievalReport(
        made_by=references_provenance(index, rater, settings).settings,
        pairs_from=pairs_from,
        figures=tally.figures(),
        examples=tuple(shown),
        bad_items=tuple(bad),
    )
    return RaterReport(about=about, retrieved=retrieval)


def _without_own_responses(test_item: Item) -> Item:
    """Return the item without references that answered the test utterance itself."""
    own = normalise(test_item.utterance or "")
    references = tuple(reference for reference in test_item.references if normalise(reference.utterance or "") != own)
    return replace(test_item, references=references)


def _example(test_item: Item) -> Example:
    further = [reference for reference in test_item.references if not reference.is_own]
    return Example(
        id=test_item.id,
        utterance=test_item.utterance or "",
        golds=tuple(reference.text for reference in test_item.references if reference.source is Origin.GOLD),
        references=tuple(sorted(further, key=lambda reference: -(reference.weight or 0.0))),
    )


class _RetrievedTally:
    """Running numbers for the figures: sixteen bytes a reference and eight a test pair, and no text."""

    def __init__(self) -> None:
        self.pairs = self._rated_pairs = 0
        self._without = Counter[str]()
        self._ratings, self._similarities, self._spreads = array("d"), array("d"), array("d")

    def add(self, augmented: Item) -> bool:
        """Count a test pair, and return whether it has rated references."""
        self.pairs += 1
        scores = [
            (reference.rating, reference.similarity)
            for reference in augmented.references
            if reference.source is Origin.RETRIEVED
        ]
        rated = [(rating, similarity) for rating, similarity in scores if rating is not None and similarity is not None]
        if not rated:
            self._without[augmented.search_notes.get("note", _NONE_FOUND)] += 1
            return False
        self._rated_pairs += 1
        ratings = [rating for rating, _ in rated]
        self._ratings.extend(ratings)
        self._similarities.extend(similarity for _, similarity in rated)
        if len(ratings) > 1:
            self._spreads.append(max(ratings) - min(ratings))
        return True

    def figures(self) -> RetrievedFigures:
        """Compute the figures from the numbers."""
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
            spearman=_coefficient(spearman, similarities, ratings),
            pearson=_coefficient(pearson, similarities, ratings),
            histogram=Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist())),
            by_similarity=tuple(_by_similarity(similarities, ratings)),
        )


def _quartiles(ratings: Floats) -> tuple[float, float, float]:
    low, median, high = np.quantile(ratings, (0.25, 0.5, 0.75)).tolist()
    return low, median, high


def _coefficient(
    correlation: Callable[[Floats, Floats], Correlation], similarities: Floats, ratings: Floats
) -> float | None:
    return correlation(similarities, ratings).value


def _by_similarity(similarities: Floats, ratings: Floats) -> Iterator[SimilarityBin]:
    """Yield the bins that are not empty, the least similar first; the last bin has all higher similarities of BM25."""
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


# ── Reports on raters, read back from their JSON: their page is rendered again without the rater and the index ────────


_BAD_ITEM: Final = re.compile(r"(?s)(.*?), line (\d+)(?:, (.*?))?: (.*)")
_NOT_FIGURES: Final = frozenset({"made_by", "pairs_from", "bad_items", "examples"})


def stored_rater_report(document: Mapping[str, Any], shown_name: str) -> RaterReport:
    """Return the report that a document was written from; BadInput says what the document lacks."""
    try:
        about = RaterDescription(
            spec=document["rater"],
            id=document["id"],
            logs=tuple(document["logs"]),
            network=document["network"],
            training=document["training"],
        )
        retrieved = document["retrieved"]
        return RaterReport(about=about, retrieved=None if retrieved is None else _retrieval(retrieved))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(
            f"{shown_name} is not as refaug train report rater writes it: {error}",
            remedy="run refaug train report rater again",
        ) from error


def _retrieval(stored: Mapping[str, Any]) -> RetrievalReport:
    return RetrievalReport(
        made_by=stored["made_by"],
        pairs_from=stored["pairs_from"],
        figures=_figures({name: figure for name, figure in stored.items() if name not in _NOT_FIGURES}),
        examples=tuple(map(_stored_example, stored["examples"])),
        bad_items=tuple(map(_bad_item, stored["bad_items"])),
    )


def _figures(stored: Mapping[str, Any]) -> RetrievedFigures:
    histogram, quartiles = stored["histogram"], stored["quartiles"]
    return RetrievedFigures(
        **{
            **stored,
            "quartiles": None if quartiles is None else tuple(quartiles),
            "histogram": Histogram(edges=tuple(histogram["edges"]), counts=tuple(histogram["counts"])),
            "by_similarity": tuple(SimilarityBin(**similarity_bin) for similarity_bin in stored["by_similarity"]),
        }
    )


def _stored_example(stored: Mapping[str, Any]) -> Example:
    return Example(
        id=stored["id"],
        utterance=stored["utterance"],
        golds=tuple(stored["golds"]),
        references=tuple(map(_reference, stored["references"])),
    )


def _reference(stored: Mapping[str, Any]) -> Reference:
    return Reference(
        text=stored["text"],
        source=Origin(stored["source"]),
        weight=stored["weight"],
        rating=stored["rating"],
        similarity=stored["similarity"],
        utterance=stored["utterance"],
    )


def _bad_item(text: str) -> BadItem:
    """Return an item whose text is this one: the parts of its place are not told apart again."""
    parts = _BAD_ITEM.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not an item that could not be read")
    file, line, place, message = parts.groups()
    return BadItem(file=file, line=int(line), item=None, field=place or "", message=message)
