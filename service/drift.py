"""Shadow scoring: what becomes of the scores on a frozen set when an index is replaced by a newer version of it.

The items of the set get their references anew, from the old version and from the new one, found and weighed as the
set's own were; then the same replies are scored with both. Nothing of it is kept but the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

import numpy as np

from core.errors import BadInput, Corrupt, Usage
from core.items import BadItem
from core.progress import Progress
from core.records import Item, Origin
from indexer.index import ReferenceIndex
from indexer.queries import SearchSettings
from metrics.base import Metric
from metrics.correlation import spearman
from rater.rate import Rater, RatingSettings
from service.augment import AugmentSettings, augment
from service.evaluate import evaluate
from service.reference_sets import ReferenceSet, SetManifest
from service.scores import MetricScores, ScoreSettings, SystemScore

GOLD: Final = "gold"  # what the golds are called as a system, where there are no replies of others


@dataclass(frozen=True, kw_only=True)
class MetricDrift:
    """The replies of one system under one metric, with the references of the old version and of the new one."""

    metric: str
    system: str
    corpus_old: float | None
    corpus_new: float | None
    difference: float | None  # of the corpus scores: new − old
    replies: int  # that have a score with both
    unscored_old: int
    unscored_new: int
    mean_absolute: float | None  # of the differences, reply by reply
    largest: float | None  # of them
    spearman: float | None  # between old and new scores of the replies
    why: str = ""  # there is no rank correlation


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What changed between two versions of an index, seen from a frozen set."""

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

    def as_json(self) -> dict[str, Any]:
        """All of it, and the worst of each figure beside."""
        return {**asdict(self), "references_changed": self.references_changed, "worst": self.worst()}

    def worst(self) -> dict[str, float | None]:
        """Of each figure that which speaks most against the new version; None where one could not be computed."""
        return {
            "corpus_difference": _largest(
                None if one.difference is None else abs(one.difference) for one in self.scores
            ),
            "mean_absolute": _largest(one.mean_absolute for one in self.scores),
            "references_changed": self.references_changed,
            "spearman": _least(_rank_of(one) for one in self.scores),
        }


def _rank_of(one: MetricDrift) -> float | None:
    """Scores that are all alike have no rank correlation; where none of them moved, nothing changed places."""
    return 1.0 if one.spearman is None and one.largest == 0 else one.spearman


def _largest(values: Any) -> float | None:
    found = list(values)
    return None if None in found else max(found)


def _least(values: Any) -> float | None:
    found = list(values)
    return None if None in found else min(found)


def shadow(
    stored: ReferenceSet,
    old: ReferenceIndex,
    new: ReferenceIndex,
    rater: Rater | None,
    metrics: Sequence[Metric],
    replies: Mapping[str, Mapping[str, str]] | None,
    progress: Progress,
) -> Drift:
    """Score the same replies with what two versions of an index have for the items of a set.

    `replies` are those of systems, by item and system; None: the first gold of each item, which is then scored against
    its references without golds, since against itself it would always be perfect.
    """
    settings = settings_of(stored.manifest)
    items = list(stored.items())
    with_old = _with_replies(_found_anew(items, old, rater, settings, progress), replies)
    with_new = _with_replies(_found_anew(items, new, rater, settings, progress), replies)
    if replies is not None and not any(item.replies for item in with_old):
        raise BadInput(f"no reply is to an item of the set {stored.id}", remedy="give replies the ids of its items")
    before = evaluate(with_old, metrics, _SCORES_ALONE, progress=progress)
    after = evaluate(with_new, metrics, _SCORES_ALONE, progress=progress)
    return Drift(
        set=stored.id,
        old=old.spec,
        new=new.spec,
        rater=rater.spec if rater is not None and settings.needs_rater else None,
        items=len(items),
        items_changed=sum(_texts(one) != _texts(other) for one, other in zip(with_old, with_new, strict=True)),
        scores=tuple(
            drift for one, other in zip(before.scores, after.scores, strict=True) for drift in _drifts(one, other)
        ),
    )


_SCORES_ALONE: Final = ScoreSettings(draws=0, parts=False)


def _found_anew(
    items: Sequence[Item], index: ReferenceIndex, rater: Rater | None, settings: AugmentSettings, progress: Progress
) -> list[Item]:
    """The items with their own references, and those that this version has for them."""
    found = list[Item]()
    for one in augment(items, index, rater, settings, progress):
        assert not isinstance(one, BadItem)
        found.append(one.item)
    return found


def _with_replies(items: Sequence[Item], replies: Mapping[str, Mapping[str, str]] | None) -> list[Item]:
    if replies is not None:
        return [replace(item, replies=replies.get(item.id, {})) for item in items]
    return [_gold_as_reply(item) for item in items]


def _gold_as_reply(item: Item) -> Item:
    gold = item.pair.gold
    others = tuple(one for one in item.pair.references if one.source is not Origin.GOLD)
    said = {GOLD: gold.text} if gold is not None else {}
    return replace(item, pair=replace(item.pair, references=others), replies=said)


def _texts(item: Item) -> set[str]:
    return {one.text for one in item.pair.references if one.source is Origin.RETRIEVED}


def _drifts(old: MetricScores, new: MetricScores) -> list[MetricDrift]:
    return [_drift(old.metric.name, name, old.systems[name], new.systems[name]) for name in old.systems]


def _drift(metric: str, system: str, old: SystemScore, new: SystemScore) -> MetricDrift:
    scores = [
        (one.score, other.score)
        for one, other in zip(old.replies, new.replies, strict=True)
        if one.score is not None and other.score is not None
    ]
    both = np.array(scores, np.float64).reshape(-1, 2)
    moved = np.abs(both[:, 1] - both[:, 0])
    ranks = spearman(both[:, 0], both[:, 1])
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
        mean_absolute=float(moved.mean()) if len(moved) else None,
        largest=float(moved.max()) if len(moved) else None,
        spearman=ranks.value,
        why=ranks.why or "",
    )


# ── how a set's references were found ─────────────────────────────────────────────────────────────────────────────


def settings_of(manifest: SetManifest) -> AugmentSettings:
    """What a set's manifest says of how its references were found, rated and weighed."""
    said = {**manifest.details, **manifest.provenance}
    if "k" not in said or "mode" not in said:
        raise Usage(
            f"the set {manifest.id} was frozen with the references that it came with: nothing says how to find others",
            remedy="name a set that was frozen with an index",
        )
    try:
        return AugmentSettings(
            search=SearchSettings(
                k=int(said["k"]),
                mode=said["mode"],  # type: ignore[arg-type]
                alpha=float(said.get("alpha", SearchSettings.alpha)),
                epsilon=float(said.get("epsilon", SearchSettings.epsilon)),
                depth=None if said.get("depth", "auto") == "auto" else int(said["depth"]),
                after=_moment(said.get("after")),
                before=_moment(said.get("before")),
                exclude_logs=tuple(filter(None, said.get("exclude-logs", "").split(","))),
                near=float(said.get("near", SearchSettings.near)),
                near_tokens=int(said.get("near-tokens", SearchSettings.near_tokens)),
            ),
            rating=RatingSettings(
                combine=said.get("combine", RatingSettings.combine),  # type: ignore[arg-type]
                calibration=said.get("cal", RatingSettings.calibration),  # type: ignore[arg-type]
            ),
            gold=said.get("gold", AugmentSettings.gold),  # type: ignore[arg-type]
            parrot=_parrot(said.get("parrot", "rated")),  # type: ignore[arg-type]
            weights=said.get("weights", AugmentSettings.weights),  # type: ignore[arg-type]
        )
    except (ValueError, Usage) as error:
        raise Corrupt(
            f"the manifest of the set {manifest.id} says nothing usable of how its references were found: {error}"
        ) from error


def rater_of(manifest: SetManifest) -> str | None:
    """The rater that weighed a set, as name@version."""
    named = manifest.provenance.get("rater")
    return None if named is None else named.partition("#")[0]


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _parrot(text: str) -> str | float:
    return text if text in ("rated", "off") else float(text)
