"""The report on fitted judges, in small: features by hand, scores of judges that never saw the group, all tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from proofs import tiny_chain, tiny_set

from refaug.core.records import Reference
from refaug.evaluation.fitted_judge.fit import fit_judge
from refaug.evaluation.reproduction.judge_trials.features import (
    CHRF,
    CROSS_ALONE,
    CROWDING,
    LENGTH,
    RECALL,
    REPETITION,
    JudgeFeatures,
    features_of,
)
from refaug.evaluation.reproduction.judge_trials.judge_lines import rated_table
from refaug.evaluation.reproduction.judge_trials.judges import ATTEMPTS, BY_FOLDS, BY_GROUPS, judges
from refaug.evaluation.reproduction.judge_trials.vhred_features import VHRED_FEATURES
from refaug.evaluation.reproduction.material.metric_candidates import GREEDY_BY_WORDS, RECOMMENDED, Trial
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.report.report import Report, write_report
from refaug.rater.rating import RatingRequest


def sets_of() -> list[ProofSet]:
    """Two sets that share nothing, with enough rows to fit a judge to one of them."""
    return [tiny_set("first", 1, items=40), tiny_set("second", 2, items=40)]


@pytest.mark.slow
def test_features_attempts_and_tables_of_two_tiny_sets(tmp_path: Path) -> None:
    chain, sets = tiny_chain(tmp_path), sets_of()
    features = features_of(chain, Trial(chain, [rated_set.with_first_gold() for rated_set in sets]))
    assert_features(features, sets[0], chain.cross_rater())
    report = judges(chain, sets)
    names = [attempt.name for attempt in ATTEMPTS if not set(attempt.features) & set(VHRED_FEATURES)]
    assert len(names) == len(ATTEMPTS) - 8, "the run names no VHRED"
    assert list(report.data["less_recommended"]) == names
    figures = report.data["main"]["figures"]
    assert {*names, RECOMMENDED.name, "control: length alone, fitted"} <= figures.keys()
    ridge = next(attempt for attempt in ATTEMPTS if attempt.name == "ridge: rater + υ-greedy")
    table = rated_table([rated_set.with_first_gold() for rated_set in sets], features.lines, ridge.features)
    expected = fit_judge(table.select(np.flatnonzero(table.sets == 1))).score(table.values, table.lengths)
    rows = sets[0].fair & np.isfinite(expected[: len(sets[0].replies)])
    assert figures[ridge.name]["spearman"]["first"]["value"] == pytest.approx(
        _spearman(expected[: len(rows)][rows], sets[0].ratings[rows]), abs=1e-3
    )
    assert list(report.data["less_recommended_together"]["spearman"]) == names
    assert report.data["choices"][BY_GROUPS]["chosen"].keys() == {"first", "second"}
    assert len(report.data["choices"][BY_FOLDS]["chosen"]) == 5
    assert_seconds(features, report)
    again = judges(chain, sets)
    figures_alone = ("main", "tilted", "less_recommended_together", "choices", "coefficients", "people")
    for part in figures_alone:
        assert again.data[part] == report.data[part], part
    page, text, data = write_report(report, chain, sets, "refaug reproduce judges", tmp_path / "results")
    assert "ordinal: all features" in text.read_text("utf-8")
    assert {page.suffix, data.suffix} == {".html", ".json"}


def assert_seconds(features: JudgeFeatures, report: Report) -> None:
    """The search counts once for each judge that needs retrieved references, and the table of agreement has it all."""
    seconds = report.data["seconds_per_1000_replies"]
    assert features.search_seconds > 0
    searching = replace(features, seconds=dict.fromkeys(features.seconds, 0.25), search_seconds=3.0)
    assert searching.cost_of([CHRF]) == 0.25
    assert searching.cost_of([CHRF, CROWDING, GREEDY_BY_WORDS.name]) == 3.75
    [table] = [table for table in report.sections[0].tables if table.title == "Agreement out of group"]
    assert table.columns[-1] == "seconds for 1,000 replies"
    costs = {row[0]: row[-1] for row in table.rows}
    assert costs[RECOMMENDED.name] == f"{seconds[RECOMMENDED.name]:.2f}"
    assert {costs[attempt.name] for attempt in ATTEMPTS if attempt.name in costs} == {
        f"{seconds[attempt.name]:.2f}" for attempt in ATTEMPTS if attempt.name in seconds
    }


def _spearman(scores: np.ndarray, ratings: np.ndarray) -> float:
    from scipy.stats import spearmanr  # noqa: PLC0415

    return float(spearmanr(scores, ratings).statistic)


def assert_features(features: JudgeFeatures, rated_set: ProofSet, rater) -> None:
    """Some by hand: length, words of the gold, words of the turns, and the cross rater without a gold."""
    rows = range(len(rated_set.replies))
    assert features.lines[LENGTH].scores["first"][0].tolist() == [len(reply.split()) for reply in rated_set.replies]
    recall, novelty = (features.lines[name].scores["first"][0] for name in (RECALL, REPETITION))
    for row in rows:
        item, words = rated_set.items[rated_set.item[row]], set(rated_set.replies[row].split())
        gold = set(item.references[0].text.split())
        assert (recall[row] == 0) == (not gold & words)
        assert (recall[row] == pytest.approx(1)) == (gold <= words)
        said = {word for turn in item.turns[-3:] for word in turn.split()}
        assert (novelty[row] == pytest.approx(0)) == (words <= said)
    request = RatingRequest(
        utterance="\n".join(rated_set.items[rated_set.item[0]].turns[-3:]),
        golds=(),
        candidates=(Reference(text=rated_set.replies[0]),),
    )
    assert features.lines[CROSS_ALONE].scores["first"][0][0] == pytest.approx(rater.rate([request])[0][0], abs=1e-5)
    assert np.isfinite(features.lines[CHRF].scores["first"]).any()


def test_rows_that_rate_a_gold_are_not_fitted_to() -> None:
    rated_set = tiny_set("first", 1)
    is_gold = rated_set.is_gold.copy()
    is_gold[:3] = True
    line = replace(rated_set, is_gold=is_gold)
    table = rated_table([line], {LENGTH: _length_line(line)}, (LENGTH,))
    assert np.isnan(table.ratings[:3]).all()
    assert len(table.complete()) == int(line.fair.sum())


def _length_line(rated_set: ProofSet):
    from refaug.evaluation.reproduction.figures.correlations import Line  # noqa: PLC0415

    return Line(name=LENGTH, scores={rated_set.name: rated_set.lengths[None]})
