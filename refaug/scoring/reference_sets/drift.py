"""Shadow scoring: compare the scores on a frozen set between two versions of an index.

The items of the set get new references from the old version and from the new one, retrieved and weighted as the set's
were; then the same replies are scored with both. Only the figures remain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.base import Metric
from refaug.metrics.statistics.correlation import spearman_alone
from refaug.rater.rating import Rater
from refaug.scoring.augmentation import augment
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import settings_of_provenance
from refaug.scoring.reference_sets.reference_set import ReferenceSet, SetManifest
from refaug.scoring.scores import MetricScores, SystemScore
from refaug.scoring.settings import AugmentSettings, ScoreSettings

GOLD: Final = "gold"  # the golds as a system, where no replies are given


@dataclass(frozen=True, kw_only=True)
class MetricDrift:
    """The scores of one system under one metric, with the references of the old version and of the new one."""

    metric: str
    system: str
    corpus_old: float | None
    corpus_new: float | None
    difference: float | None  # of the corpus scores: new − old
    replies: int  # with a score in both versions
    unscored_old: int
    unscored_new: int
    mean_absolute: float | None  # of the differences, reply by reply
    largest: float | None  # of the differences
    spearman: float | None  # between old and new scores of the replies
    why: str = ""  # why there is no rank correlation


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The changes of scores on a frozen set between two versions of an index."""

    set: str
    old: str
    new: str
    rater: str | None
    items: int
    items_changed: int  # items with other retrieved texts than before; their order and weights do not count
    scores: tuple[MetricDrift, ...]

    @property
    def references_changed(self) -> float:
        """The share of the items whose references changed."""
        return self.items_changed / self.items

    def as_json(self) -> dict[str, object]:
        """Return all figures, and the worst of each kind."""
        return {**asdict(self), "references_changed": self.references_changed, "worst": self.worst()}

    def worst(self) -> dict[str, float | None]:
        """Return of each figure the one most against the new version; None where one could not be computed."""
        return {
            "corpus_difference": _largest(
                None if drift.difference is None else abs(drift.difference) for drift in self.scores
            ),
            "mean_absolute": _largest(drift.mean_absolute for drift in self.scores),
            "references_changed": self.references_changed,
            "spearman": _least(_rank_correlation(drift) for drift in self.scores),
        }


def _rank_correlation(drift: MetricDrift) -> float | None:
    """Return the rank correlation, and 1 where it does not exist because no score moved."""
    return 1.0 if drift.spearman is None and drift.largest == 0 else drift.spearman


def _largest(optional_figures: Any) -> float | None:
    figures = list(optional_figures)
    return None if None in figures else max(figures)


def _least(optional_figures: Any) -> float | None:
    figures = list(optional_figures)
    return None if None in figures else min(figures)


def shadow_score(
    frozen_set: ReferenceSet,
    old: ReferenceIndex,
    new: ReferenceIndex,
    rater: Rater | None,
    metrics: Sequence[Metric],
    replies: Mapping[str, Mapping[str, str]] | None,
    progress: Progress,
) -> Drift:
    """Score the same replies with the references that two versions of an index have for the items of a set.

    `replies` are those of systems, by item and system. If they are None, the first gold of each item is scored against
    its references without golds, since against itself it would always be perfect.
    """
    settings = settings_of(frozen_set.manifest)
    items = list(frozen_set.items())
    with_old = _with_replies(_augment_again(items, old, rater, settings, progress), replies)
    with_new = _with_replies(_augment_again(items, new, rater, settings, progress), replies)
    if not any(item.replies for item in with_old):
        if replies is None:
            raise BadInput(
                f"no item of the set {frozen_set.id} has a gold to score",
                remedy='a set of items with golds, or "replies" in the order',
            )
        raise BadInput(f"no reply is to an item of the set {frozen_set.id}", remedy="give replies the ids of its items")
    evaluation_old = evaluate(with_old, metrics, _WITHOUT_INTERVALS, progress=progress)
    evaluation_new = evaluate(with_new, metrics, _WITHOUT_INTERVALS, progress=progress)
    return Drift(
        set=frozen_set.id,
        old=old.spec,
        new=new.spec,
        rater=rater.spec if rater is not None and settings.needs_rater else None,
        items=len(items),
        items_changed=sum(
            _retrieved_texts(before) != _retrieved_texts(after)
            for before, after in zip(with_old, with_new, strict=True)
        ),
        scores=tuple(
            drift
            for old_scores, new_scores in zip(evaluation_old.scores, evaluation_new.scores, strict=True)
            for drift in _drifts(old_scores, new_scores)
        ),
    )


_WITHOUT_INTERVALS: Final = ScoreSettings(draws=0)


def _augment_again(
    items: Sequence[Item], index: ReferenceIndex, rater: Rater | None, settings: AugmentSettings, progress: Progress
) -> list[Item]:
    """Return the items with their golds and supplied references, and those that this version has for them."""
    augmented_items = list[Item]()
    for augmented in augment(items, index, rater, settings, progress):
        assert not isinstance(augmented, BadItem)
        augmented_items.append(augmented)
    return augmented_items


def _with_replies(items: Sequence[Item], replies: Mapping[str, Mapping[str, str]] | None) -> list[Item]:
    if replies is not None:
        return [replace(item, replies=replies.get(item.id, {})) for item in items]
    return [_gold_as_reply(item) for item in items]


def _gold_as_reply(test_item: Item) -> Item:
    gold = test_item.gold
    further = tuple(reference for reference in test_item.references if reference.source is not Origin.GOLD)
    replies = {GOLD: gold.text} if gold is not None else {}
    return replace(test_item, references=further, replies=replies)


def _retrieved_texts(test_item: Item) -> set[str]:
    return {reference.text for reference in test_item.references if reference.source is Origin.RETRIEVED}


def _drifts(old: MetricScores, new: MetricScores) -> list[MetricDrift]:
    return [_drift(old.metric.name, name, old.systems[name], new.systems[name]) for name in old.systems]


def _drift(metric: str, system: str, old: SystemScore, new: SystemScore) -> MetricDrift:
    scores = [pair for pair in zip(old.each_score(), new.each_score(), strict=True) if None not in pair]
    both = np.array(scores, np.float64).reshape(-1, 2)
    differences = np.abs(both[:, 1] - both[:, 0])
    ranks = spearman_alone(both[:, 0], both[:, 1])
    has_corpus = old.corpus is not None and new.corpus is not None
    return MetricDrift(
        metric=metric,
        system=system,
        corpus_old=old.corpus,
        corpus_new=new.corpus,
        difference=float(new.corpus - old.corpus) if has_corpus else None,  # type: ignore[operator]
        replies=len(scores),
        unscored_old=old.counts()[1],
        unscored_new=new.counts()[1],
        mean_absolute=float(differences.mean()) if len(differences) else None,
        largest=float(differences.max()) if len(differences) else None,
        spearman=ranks.value,
        why=ranks.why or "",
    )


# ── Settings from a set's manifest ────────────────────────────────────────────────────────────────────────────────


def settings_of(manifest: SetManifest) -> AugmentSettings:
    """Return the settings by which a set's references were retrieved, rated and weighted, as its manifest has them."""
    provenance = {**manifest.details, **manifest.provenance}
    if "k" not in provenance or "mode" not in provenance:
        raise Usage(
            f"the set {manifest.id} was frozen with the references that it came with: nothing says how to find others",
            remedy="name a set that was frozen with an index",
        )
    try:
        return settings_of_provenance(manifest.references_provenance)
    except (KeyError, ValueError, Usage) as error:
        raise Corrupt(
            f"the manifest of the set {manifest.id} says nothing usable of how its references were found: {error}"
        ) from error


def rater_of(manifest: SetManifest) -> str | None:
    """Return the rater that weighted a set, as name@version."""
    spec = manifest.provenance.get("rater")
    return None if spec is None else spec.partition("#")[0]
