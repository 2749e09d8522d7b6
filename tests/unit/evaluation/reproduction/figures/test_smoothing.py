"""Smoothings beside the default: the same figures as plain scores give, and the default less itself is nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from proofs import tiny_chain, tiny_set
from scipy import stats

from refaug.evaluation.reproduction.figures.smoothing import (
    DEFAULT_SMOOTHING,
    SMOOTHINGS,
    smoothed_judged,
    smoothed_retrieved,
    smoothing_json,
    smoothing_tables,
)
from refaug.evaluation.reproduction.material.judged_replies import WeightedSet, weighted_scores
from refaug.evaluation.reproduction.material.metric_candidates import Trial
from refaug.evaluation.reproduction.material.reference_kinds import scores_of
from refaug.metrics.specification import build


def test_the_default_is_that_of_the_metric() -> None:
    assert build("upsilon-bleu").settings["smooth"] == build("delta-bleu").settings["smooth"] == DEFAULT_SMOOTHING


def test_judged_replies_are_scored_with_every_smoothing_and_weight(tmp_path: Path) -> None:
    chain = tiny_chain(tmp_path)
    weighted_set = WeightedSet.of(tiny_set("first", 15).with_first_gold(), chain.rater())
    smoothed = smoothed_judged([weighted_set], chain.settings)
    figures, rated_set = smoothing_json(smoothed), weighted_set.rated_set

    assert list(smoothed) == [
        f"{condition}, bp={penalty}"
        for condition in ("gold", "one", "people", "rated")
        for penalty in ("closest", "none")
    ]
    for smoothing in SMOOTHINGS:
        scores = weighted_scores(weighted_set, build(f"delta-bleu:smooth={smoothing},bp=none"), "people")
        rows = rated_set.fair & np.isfinite(scores)
        expected = stats.spearmanr(scores[rows].round(14), rated_set.ratings[rows]).statistic
        figure = figures["people, bp=none"][smoothing]["spearman"]["first"]
        assert figure["value"] == pytest.approx(expected, abs=1e-3)
        default = figures["people, bp=none"][DEFAULT_SMOOTHING]["spearman"]["first"]["value"]
        assert figure["less_default"]["value"] == pytest.approx(figure["value"] - default, abs=2e-4)
    assert figures["people, bp=none"]["exp"]["spearman"]["first"]["less_default"] == {"value": 0, "low": 0, "high": 0}


def test_retrieved_references_are_tried_rated_and_of_weight_one(tmp_path: Path) -> None:
    chain, rated_set = tiny_chain(tmp_path), tiny_set("first", 15).with_first_gold()
    trial = Trial(chain, [rated_set])
    smoothed = smoothed_retrieved(trial)

    assert list(smoothed) == ["one, bp=closest", "one, bp=none", "rated, bp=closest", "rated, bp=none"]
    extras = trial.pool(rated_set).extras("one", k=15, parrot=False)
    scores = scores_of(rated_set, build("upsilon-bleu:smooth=floor,bp=closest"), extras)
    expected = stats.spearmanr(scores[rated_set.fair].round(14), rated_set.ratings[rated_set.fair]).statistic
    figure = smoothed["one, bp=closest"].estimate("floor", "spearman", "first")
    assert figure.value == pytest.approx(expected, abs=1e-3)
    tables = smoothing_tables(smoothed, "Smoothing")
    assert [table.title for table in tables] == ["Smoothing, Spearman", "Smoothing, partial Spearman"]
    assert [row[0] for row in tables[0].rows] == ["exp", *(f"{name} less exp" for name in SMOOTHINGS if name != "exp")]
