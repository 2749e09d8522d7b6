"""Which items need more references: how reliable each reference set is, after Gao, Bi, Xu and Shi (2021).

The paper takes a reference set as reliable where the metric's scores of replies to its item go with people's ratings,
and predicts that from the set alone. Here a set has

- support: the mean score of its references, each against the others of the set
- margin: support less the mean score of references of other items against the set
- separation: how often one of its references, against the others, scores above a reference of another item, against
  as many; ties count half
- measured: Spearman's ρ of the scores of the rated replies to the item with their ratings
- predicted: the same by a ridge regression on the number of references (its logarithm), support, margin, separation
  and length, fitted to the items of the other folds.

Items whose prediction is lowest need references first; without ratings, those whose separation is lowest, and before
them those with a single reference, whose separation is unknown. The correlation of what was predicted with what was
measured says whether the prediction is worth anything, beside the same of predictions fitted to shuffled figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from refaug.agreement.records import ComparedMetric
from refaug.agreement.row_scores import values_of_rows
from refaug.agreement.rows import RatedRows
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress
from refaug.core.records import Item, Reference
from refaug.metrics.base import Floats, Level, Metric, Problem, References
from refaug.metrics.metric_info import Uses
from refaug.metrics.statistics.correlation import spearman_alone
from refaug.scoring.cases import references_for, score_replies
from refaug.scoring.citation.citation import papers

PAPER: Final = "gao-2021-ream"
FEWEST_REPLIES: Final = 4  # with different ratings, of an item that is measured
FEWEST_MEASURED: Final = 20  # items that a prediction is fitted to
FOLDS: Final = 10
_OTHERS: Final = 20  # references of other items that a set is held against
_FEW: Final = 10_000  # references of all items, of which any may be drawn by a permutation
_MOST_OWN: Final = 20  # references of a set, each held out in turn
_PENALTY: Final = 1.0  # of standardised features, a hundredth of the items
_SHUFFLES: Final = 200
_OF_REFERENCES: Final = frozenset({Uses.OWN, Uses.RATED, Uses.WEIGHTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSetFigures:
    """The figures of one item; NaN where one is unknown."""

    item: str
    references: int
    support: float
    margin: float
    separation: float
    words: float  # of a reference, the mean
    replies: int = 0  # rated ones with a score
    measured: float = float("nan")
    predicted: float = float("nan")

    def as_json(self) -> dict[str, object]:
        """Return the figures; null for an unknown one."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: None if field != field else field for name, field in fields.items()}  # noqa: PLR0124  NaN

    @property
    def features(self) -> tuple[float, ...]:
        """What reliability is predicted from."""
        return (float(np.log(self.references)), self.support, self.margin, self.separation, self.words)

    @property
    def need(self) -> tuple[float, ...]:
        """What items are sorted by: those that need references most come first."""
        known = self.separation if np.isnan(self.predicted) else self.predicted
        return (-np.inf if np.isnan(known) else known, self.references)


@dataclass(frozen=True, kw_only=True)
class ReliabilityReport:
    """The items of a set, those that need references most first, and what the prediction is worth."""

    metric: str
    items: tuple[ReferenceSetFigures, ...]
    without_references: tuple[str, ...]  # ids of items
    measured: int  # items that have a measured figure
    validity: float | None  # Spearman's ρ of predicted and measured figures; None where nothing was predicted
    shuffled: tuple[float, float] | None  # the middle 95 % of it where measured figures are shuffled

    def as_json(self) -> dict[str, object]:
        """Return every figure."""
        return {
            "metric": self.metric,
            "paper": papers()[PAPER].in_text,
            "measured": self.measured,
            "validity": self.validity,
            "shuffled": self.shuffled and list(self.shuffled),
            "without_references": list(self.without_references),
            "items": [figures.as_json() for figures in self.items],
        }


def reliability(
    items: Sequence[Item], compared: ComparedMetric, rated_rows: RatedRows | None, progress: Progress, *, seed: int = 1
) -> ReliabilityReport:
    """Return the figures of all items; `rated_rows` are their rated replies, where there are any."""
    metric = compared.metric
    if metric.info.uses not in _OF_REFERENCES:
        raise Usage(
            f"{compared.name} looks at no more than one reference of an item",
            remedy="a metric of all references, such as chrf, multi-bleu or bertscore",
        )
    usable = [one for one in items if _texts_of(one)]
    if len(usable) < 2:
        raise BadInput("fewer than two items have references", remedy="a test file with references: docs/items.md")
    rng = np.random.default_rng(seed)
    chosen = [references_for(metric, one.references, one.turns) for one in usable]
    metric = metric.for_set([each for each in chosen if isinstance(each, References)])
    figures = list(_figures_of(usable, metric, -1.0 if compared.turned else 1.0, rng, progress))
    if rated_rows is not None:
        by_item = _measured(rated_rows, values_of_rows(rated_rows, compared, progress))
        figures = [
            replace(one, replies=by_item[one.item][0], measured=by_item[one.item][1]) if one.item in by_item else one
            for one in figures
        ]
    targets = np.array([one.measured for one in figures])
    is_measured = np.isfinite(targets)
    validity, shuffled = None, None
    if is_measured.sum() >= FEWEST_MEASURED:
        features = np.array([one.features for one in figures])
        predicted = predict_out_of_fold(features, targets, rng)
        figures = [replace(one, predicted=value) for one, value in zip(figures, predicted.tolist(), strict=True)]
        validity, shuffled = _validity(features, targets, predicted, rng)
    return ReliabilityReport(
        metric=compared.name,
        items=tuple(sorted(figures, key=lambda one: one.need)),
        without_references=tuple(one.id for one in items if not _texts_of(one)),
        measured=int(is_measured.sum()),
        validity=validity,
        shuffled=shuffled,
    )


def _texts_of(test_item: Item) -> list[Reference]:
    return [one for one in test_item.references if one.text.strip() and not one.is_unused]


# ── From the references alone ─────────────────────────────────────────────────────────────────────────────────────────


def _figures_of(
    items: Sequence[Item], metric: Metric, sign: float, rng: np.random.Generator, progress: Progress
) -> Iterator[ReferenceSetFigures]:
    """Yield the figures of each item, by what its references and those of others score."""
    everything = [(place, one.text) for place, item in enumerate(items) for one in _texts_of(item)]
    replies, against, begins = list[str](), list[References | Problem](), [0]
    for place, test_item in enumerate(items):
        texts = _texts_of(test_item)
        own, others = texts[:_MOST_OWN], _drawn_texts(everything, place, len(texts), rng)
        for left_out in range(len(own)) if len(own) > 1 else ():
            rest = references_for(metric, [*own[:left_out], *own[left_out + 1 :]], test_item.turns)
            replies += [own[left_out].text, *others]
            against += [rest] * (1 + len(others))
        begins.append(len(replies))
    progress.stage("score references", len(replies), "texts")
    scores = sign * _scores(metric, replies, against, progress)
    for test_item, begin, end in zip(items, begins[:-1], begins[1:], strict=True):
        reference_texts = [one.text for one in _texts_of(test_item)]
        shape = (min(len(reference_texts), _MOST_OWN), -1) if end > begin else (0, 1)
        yield set_figures(test_item.id, reference_texts, scores[begin:end].reshape(shape))


def _drawn_texts(everything: Sequence[tuple[int, str]], place: int, own: int, rng: np.random.Generator) -> list[str]:
    """Return drawn references of other items; the item at this place has `own` of them."""
    drawn, count = list[str](), len(everything)
    order = rng.permutation(count) if count <= _FEW else rng.choice(count, min(count, _OTHERS + own), replace=False)
    for at in order.tolist():
        owner, text = everything[at]
        if owner != place:
            drawn.append(text)
        if len(drawn) == _OTHERS:
            break
    return drawn


def _scores(
    metric: Metric, replies: Sequence[str], references: Sequence[References | Problem], progress: Progress
) -> Floats:
    if not replies:
        return np.empty(0)
    statistics, _ = score_replies(metric, replies, references, progress)
    return np.asarray(metric.values(statistics, Level.REPLY))


def set_figures(item: str, texts: Sequence[str], scores: Floats) -> ReferenceSetFigures:
    """Return the figures from scores (references, 1 + others): each reference, then others, against the rest."""
    words = float(np.mean([len(text.split()) for text in texts]))
    support = margin = separation = float("nan")
    if np.isfinite(scores).any():
        own, others = scores[:, :1], scores[:, 1:]
        support = _mean(own)
        margin = support - _mean(others)
        is_both = np.isfinite(own) & np.isfinite(others)
        wins = (own > others) + 0.5 * (own == others)
        separation = float(wins[is_both].mean()) if is_both.any() else float("nan")
    return ReferenceSetFigures(
        item=item, references=len(texts), support=support, margin=margin, separation=separation, words=words
    )


def _mean(values: Floats) -> float:
    """Return the mean of the finite values; NaN where there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


# ── With ratings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _measured(rated_rows: RatedRows, values: Floats) -> Mapping[str, tuple[int, float]]:
    """Return for each item how many of its rated replies count, and how their scores go with the ratings."""
    ratings = np.nanmean(rated_rows.ratings, axis=1)
    is_used = rated_rows.is_candidate & np.isfinite(values)
    figures = dict[str, tuple[int, float]]()
    for place, test_item in enumerate(rated_rows.items):
        rows = np.flatnonzero(is_used & (rated_rows.contexts == place))
        correlation = spearman_alone(values[rows], ratings[rows]).value if len(rows) >= FEWEST_REPLIES else None
        figures[test_item.id] = len(rows), float("nan") if correlation is None else correlation
    return figures


def predict_out_of_fold(features: Floats, targets: Floats, rng: np.random.Generator) -> Floats:
    """Return what a ridge regression predicts for each item, fitted to the measured items of the other folds.

    An unknown feature counts as the mean of the items that the regression is fitted to.
    """
    folds = rng.permutation(len(targets)) % FOLDS
    predicted = np.empty(len(targets))
    for fold in range(FOLDS):
        fitted = (folds != fold) & np.isfinite(targets)
        predicted[folds == fold] = ridge(features[fitted], targets[fitted], features[folds == fold])
    return predicted


def ridge(features: Floats, targets: Floats, new: Floats) -> Floats:
    """Return the predictions for new rows, of features standardised by those that are fitted to."""
    known = np.isfinite(features)
    counts = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, features, 0).sum(axis=0) / counts
    spread = np.sqrt(np.where(known, (features - means) ** 2, 0).sum(axis=0) / counts)
    design, asked = (_standardised(rows, means, spread) for rows in (features, new))
    penalty = _PENALTY * len(targets) / 100 * np.eye(design.shape[1])
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ (targets - targets.mean()))
    return np.asarray(targets.mean() + asked @ weights)


def _standardised(rows: Floats, means: Floats, spread: Floats) -> Floats:
    scale = np.where(spread > 0, spread, 1)
    return np.nan_to_num((rows - means) / scale) * (spread > 0)


def _validity(
    features: Floats, targets: Floats, predicted: Floats, rng: np.random.Generator
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the correlation of predictions with what was measured, and the middle 95 % of it by chance.

    By chance means fitted to shuffled figures: out of fold, a prediction from nothing correlates below 0.
    """
    is_measured = np.isfinite(targets)
    value = spearman_alone(predicted[is_measured], targets[is_measured]).value
    if value is None:
        return None, None
    features, measured = features[is_measured], targets[is_measured]
    by_chance = list[float]()
    for _ in range(_SHUFFLES):
        shuffled = rng.permutation(measured)
        by_chance.append(spearman_alone(predict_out_of_fold(features, shuffled, rng), shuffled).value or 0.0)
    low, high = np.quantile(by_chance, (0.025, 0.975)).tolist()
    return value, (low, high)
