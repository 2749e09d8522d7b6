"""Reliability of reference sets: figures against brute force, and what Gao et al. state of more references."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from refusals import refusing
from scipy.stats import spearmanr

from refaug.agreement import reference_reliability
from refaug.agreement.records import ComparedMetric, RatedItems
from refaug.agreement.reference_reliability import (
    FOLDS,
    ReliabilityReport,
    predict_out_of_fold,
    reliability,
    ridge,
    set_figures,
)
from refaug.agreement.rows import RatedRows
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.base import Level, References
from refaug.metrics.specification import build
from refaug.scoring.settings import MetaSettings

REPLIES = 24  # to an item
WORDS = [f"{first}{last}" for first, last in product(("ba", "do", "ki", "lu", "me", "no"), ("ra", "ste", "vin", "zop"))]


def drawn_items(count: int = 60, seed: int = 1) -> list[Item]:
    """Items with one to eight references about a topic; replies are rated by how many words of the topic they have.

    References have half of the topic's words, so that more of them say more of what fits.
    """
    rng = np.random.default_rng(seed)
    items = []
    for number in range(count):
        topic = rng.choice(WORDS, 8, replace=False)
        references = tuple(
            Reference(text=" ".join(rng.choice(topic, 3, replace=False)), source=Origin.GOLD)
            for _ in range(1 + number % 8)
        )
        replies, ratings = {}, {}
        for place in range(REPLIES):
            words = [*rng.choice(topic, place % 8, replace=False), *rng.choice(WORDS, 8 - place % 8)]
            replies[f"s{place}"], ratings[f"s{place}"] = " ".join(words), (float(sum(word in topic for word in words)),)
        items.append(Item(id=f"i{number}", turns=("hello",), references=references, replies=replies, ratings=ratings))
    return items


def report_of(items: list[Item], metric: str = "chrf", *, rated: bool = True) -> ReliabilityReport:
    rows = RatedRows.of(RatedItems(name="drawn", items=items), MetaSettings()) if rated else None
    return reliability(items, ComparedMetric(name=metric, metric=build(metric)), rows, Silent())


def test_separation_counts_the_pairs_that_are_in_order_and_halves_ties() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 4, (5, 8)).astype(float)
    figures = set_figures("a", ["one two", "three"] * 2 + ["four"], scores)
    pairs = [(row[0], other) for row in scores for other in row[1:]]
    assert figures.separation == pytest.approx(sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs))
    assert figures.support == pytest.approx(scores[:, 0].mean())
    assert figures.margin == pytest.approx(scores[:, 0].mean() - scores[:, 1:].mean())
    assert (figures.references, figures.words) == (5, pytest.approx(7 / 5))


def test_without_a_score_of_its_own_or_of_others_a_set_has_no_such_figure() -> None:
    nothing, one = float("nan"), 1.0
    unscored = set_figures("a", ["x", "y"], np.array([[nothing, one], [nothing, 3.0]]))
    alone = set_figures("a", ["x", "y"], np.array([[one, nothing], [3.0, nothing]]))
    assert np.isnan([unscored.support, unscored.margin, unscored.separation, alone.margin, alone.separation]).all()
    assert alone.support == 2.0
    assert set_figures("a", ["x", "y"], np.array([[one], [3.0]])).support == 2.0


def test_a_measured_figure_is_the_correlation_over_the_replies_to_the_item() -> None:
    items = drawn_items(24)
    metric = build("chrf")
    by_item = {figures.item: figures for figures in report_of(items).items}
    for item in items[:6]:
        golds = [reference.text for reference in item.references]
        prepared = metric.prepare([References.unweighted(golds)])
        rows = metric.statistics(
            list(item.replies.values()), prepared, np.arange(len(item.replies)), np.zeros(len(item.replies), np.int64)
        )
        scores = [float(metric.values(row, Level.REPLY)) for row in rows]
        expected = spearmanr(scores, [ratings[0] for ratings in item.ratings.values()]).statistic
        assert by_item[item.id].measured == pytest.approx(expected)
        assert by_item[item.id].replies == REPLIES


def test_ridge_is_least_squares_with_a_penalty_on_standardised_features() -> None:
    rng = np.random.default_rng(5)
    features, new = rng.normal(size=(40, 3)), rng.normal(size=(4, 3))
    targets = features @ [1.0, -2.0, 0.0] + rng.normal(size=40)
    mean, spread = features.mean(axis=0), features.std(axis=0)
    design = np.concatenate([(features - mean) / spread, np.sqrt(0.4) * np.eye(3)])
    weights = np.linalg.lstsq(design, np.concatenate([targets - targets.mean(), np.zeros(3)]), rcond=None)[0]
    assert ridge(features, targets, new) == pytest.approx(targets.mean() + (new - mean) / spread @ weights)


def test_an_unknown_feature_counts_as_the_mean_and_a_constant_one_for_nothing() -> None:
    features = np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0], [np.nan, 7.0]])
    targets = np.array([1.0, 2.0, 3.0, 2.0])
    unknown, mean = ridge(features, targets, np.array([[np.nan, 7.0], [2.0, 9.0]]))
    assert unknown == pytest.approx(mean)


def test_no_prediction_has_seen_its_own_item() -> None:
    rng = np.random.default_rng(1)
    features, targets = rng.normal(size=(50, 2)), rng.normal(size=50)
    before = predict_out_of_fold(features, targets, np.random.default_rng(7))
    fold = np.random.default_rng(7).permutation(50) % FOLDS
    changed = np.where(fold == fold[0], 1000.0, targets)
    assert predict_out_of_fold(features, changed, np.random.default_rng(7))[fold == fold[0]] == pytest.approx(
        before[fold == fold[0]]
    )


def test_sets_of_more_references_are_more_reliable_and_those_of_few_come_first() -> None:
    report = report_of(drawn_items(120))
    counts = np.array([figures.references for figures in report.items])
    measured = np.array([figures.measured for figures in report.items])
    assert measured[counts > 5].mean() > measured[counts < 3].mean() + 0.1
    assert counts[:40].mean() < counts[-40:].mean()
    assert report.measured == 120
    assert report.validity is not None
    assert report.shuffled is not None
    assert report.validity > report.shuffled[1]


def test_without_ratings_single_references_come_first_and_then_the_least_separated() -> None:
    report = report_of(drawn_items(24), rated=False)
    assert [figures.references for figures in report.items[:3]] == [1, 1, 1]
    separations = [figures.separation for figures in report.items[3:]]
    assert separations == sorted(separations)
    assert report.validity is None
    assert report.as_json()["items"][0]["separation"] is None


def test_a_metric_that_is_lower_for_better_replies_is_turned() -> None:
    items = drawn_items(24)
    turned = {figures.item: figures.separation for figures in report_of(items, "ter", rated=False).items}
    assert np.nanmean(list(turned.values())) > 0.5


def test_a_metric_of_one_reference_and_items_without_any_are_refused() -> None:
    items = drawn_items(8)
    with refusing(Usage, "bleu"):
        report_of(items, "bleu", rated=False)
    bare = [Item(id=f"i{number}", turns=("a",), references=()) for number in range(3)]
    with refusing(BadInput, "references"):
        report_of(bare, rated=False)


@pytest.mark.parametrize("few", [0, 10_000])
def test_an_item_is_held_against_distinct_references_of_others(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(reference_reliability, "_FEW", few)
    everything = [(number // 30, f"text {number}") for number in range(90)]
    for place in range(3):
        drawn = reference_reliability._drawn_texts(everything, place, 30, np.random.default_rng(place))
        assert len(set(drawn)) == len(drawn) == 20
        assert not set(drawn) & {text for owner, text in everything if owner == place}
