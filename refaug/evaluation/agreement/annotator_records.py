"""The records of annotators in the results of `refaug meta`: how well they agree, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from refaug.core.json_form import json_form
from refaug.metrics.statistics.agreement import GroupAgreement, SystemLevel
from refaug.metrics.statistics.alpha import Alpha
from refaug.metrics.statistics.correlation import Correlation, Spread, WilliamsTest
from refaug.metrics.statistics.intraclass import IntraclassCorrelations
from refaug.metrics.statistics.kappa import AnnotatorKappa, Kappa, KappaShare
from refaug.metrics.statistics.resampling import Estimate
from refaug.metrics.statistics.split_half import SplitHalf

# ── the JSON of figures: an undefined one is null, with its reason beside it ──────────────────────────────────────────


def without_none(values: Mapping[str, Any], *, keep: Sequence[str] = ()) -> dict[str, object]:
    """Return the values that are there, and the named ones in any case."""
    return {name: value for name, value in values.items() if value is not None or name in keep}


@json_form.register
def _(estimate: Estimate) -> Mapping[str, object]:
    interval = None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]
    more = {"interval": interval, "p": estimate.p, "undefined_draws": estimate.undefined or None, "why": estimate.why}
    return {"value": estimate.value, **without_none(more)}


@json_form.register
def _(correlation: Correlation) -> Mapping[str, object]:
    more = {"p": correlation.p, "n": correlation.n, "why": correlation.why}
    return {"value": correlation.value, **without_none(more)}


@json_form.register
def _(spread: Spread) -> Mapping[str, object]:
    ends = {"mean": spread.mean, "min": spread.lowest, "max": spread.highest}
    return {**ends, **without_none({"why": spread.why}), "each": json_form(spread.each)}


@json_form.register
def _(test: WilliamsTest) -> Mapping[str, object]:
    return without_none(asdict(test))


@json_form.register
def _(level: SystemLevel) -> Mapping[str, object]:
    return {
        **json_form(level.by_kind),
        "systems": [
            {"system": name, "score": score, "rating": rating}
            for name, score, rating in zip(level.systems, level.scores, level.ratings, strict=True)
        ],
        "rows": level.rows,
        "alone_in_context": level.alone,
    }


@json_form.register
def _(group: GroupAgreement) -> Mapping[str, object]:
    return {"size": group.size, "groups": group.groups, **json_form(group.by_kind)}


# ── the records of annotators in the results of `refaug meta` ─────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class DroppedAnnotator:
    """An annotator (a place in the lists of ratings, from 0) who is left out because of --min-kappa, and why."""

    annotator: int
    why: str


@dataclass(frozen=True, kw_only=True)
class KappaLevel:
    """A threshold of κ: the pairs of annotators above it, and how metrics agree with those whom it would keep."""

    share: KappaShare
    n: int  # rows that a remaining annotator rated
    # name of the metric, or `length` → kind → its correlation with the mean over the remaining annotators
    correlations: Mapping[str, Mapping[str, Correlation]]

    def as_json(self, place: Mapping[int, int]) -> dict[str, object]:
        """Return the figures with annotators by their place in the lists of ratings."""
        return {
            "kappa": self.share.threshold,
            "pairs_above": self.share.above,
            "pairs": self.share.pairs,
            "share": self.share.share,
            "annotators": [place[annotator] for annotator in self.share.annotators],
            "n": self.n,
            "metrics": json_form(self.correlations),
        }


@dataclass(frozen=True, kw_only=True)
class AnnotatorFigures:
    """How well the annotators of the used rows agree with each other, without those left out."""

    kept: tuple[int, ...]  # places in the lists of ratings, from 0; annotators in the figures are places among these
    fewest: int  # the length of the shortest list of ratings, among replies with ratings
    longest: int  # the length of the longest list
    dropped: tuple[DroppedAnnotator, ...]
    kappa: Kappa
    kappa_of_each: tuple[AnnotatorKappa, ...]
    alpha: Mapping[str, Alpha]  # by level: interval, ordinal
    icc: IntraclassCorrelations
    split_half: SplitHalf
    pairs: Mapping[str, Spread]  # `spearman` and `pearson` → every pair of annotators, by two places among the kept
    kappa_shares: tuple[KappaLevel, ...]  # by rising threshold

    def as_json(self) -> dict[str, object]:
        """Return the figures with annotators by their place in the lists of ratings."""
        place = dict(enumerate(self.kept))
        return {
            "kept": list(self.kept),
            "ratings_a_reply": [self.fewest, self.longest],
            "dropped": [asdict(dropped) for dropped in self.dropped],
            "kappa": without_none({"mean": self.kappa.mean, "why": self.kappa.why}, keep=("mean",)),
            "kappa_of_pairs": [
                {
                    **without_none(asdict(pair), keep=("value",)),
                    "first": place[pair.first],
                    "second": place[pair.second],
                }
                for pair in self.kappa.pairs
            ],
            "kappa_of_each": [
                {**without_none(asdict(kappa), keep=("value",)), "annotator": place[kappa.annotator]}
                for kappa in self.kappa_of_each
            ],
            "alpha": {level: without_none(asdict(alpha), keep=("value",)) for level, alpha in self.alpha.items()},
            "icc": {
                "rows": self.icc.rows,
                "annotators": self.icc.annotators,
                "forms": {
                    icc.form: without_none(
                        {"value": icc.value, "low": icc.low, "high": icc.high, "why": icc.why}, keep=("value",)
                    )
                    for icc in self.icc.forms
                },
            },
            "split_half": asdict(self.split_half),
            "pairs": {kind: _pairs_json(spread, place) for kind, spread in self.pairs.items()},
            "kappa_shares": [level.as_json(place) for level in self.kappa_shares],
        }


def _pairs_json(spread: Spread, place: Mapping[int, int]) -> dict[str, object]:
    """Return the extremes, then each pair with annotators by their place in the lists of ratings."""
    each = [
        {"first": place[first], "second": place[second], **json_form(correlation)}
        for (first, second), correlation in spread.each.items()
    ]
    return {**json_form(spread), "each": each}
