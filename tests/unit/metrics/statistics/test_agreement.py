"""Agreement over contexts, sets, systems and groups: the bootstrap against rows that are really repeated."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from unit.metrics.statistics.test_correlation import NAN, SCIPY, some_rows

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.agreement import (
    RatedSet,
    _deal_groups,
    drawn_correlations,
    group_agreement,
    leave_one_system_out,
    mean_over_sets,
    system_level,
)
from refaug.metrics.statistics.correlation import (
    KINDS,
    Correlation,
    by_annotator,
    correlate,
    partial_spearman,
    pearson,
    williams,
)
from refaug.metrics.statistics.resampling import Floats, count_blocks

# The bootstrap over contexts


def plain_draws(kind: str, rows: RatedSet, draws: int, seed: list[int]) -> Floats:
    """The correlations of the same draws by scipy, of rows that are really repeated."""
    contexts = np.unique(rows.clusters)
    results = []
    for counts in np.concatenate(list(count_blocks(len(contexts), draws, seed))):
        drawn = np.concatenate(
            [np.flatnonzero(rows.clusters == c) for c, n in zip(contexts, counts, strict=True) for _ in range(int(n))]
        )
        varied = np.ptp(rows.ratings[drawn]) > 0
        results.append(
            [SCIPY[kind](s[drawn], rows.ratings[drawn]).statistic if varied and np.ptp(s[drawn]) > 0 else NAN
             for s in rows.scores]
        )  # fmt: skip
    return np.array(results).T


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
@pytest.mark.parametrize("seed", range(3))
def test_every_draw_is_what_scipy_says_of_the_repeated_rows(kind: str, seed: int) -> None:
    rows = some_rows(seed=seed)
    result = mean_over_sets([rows], draws=150, seed=seed, baseline=1, level=0.9)
    drawn = plain_draws(kind, rows, 150, [seed, 0])
    for metric, agreement in enumerate(result.by_kind[kind]):
        expected = SCIPY[kind](rows.scores[metric], rows.ratings).statistic
        assert agreement.correlation.value == pytest.approx(expected, abs=1e-12)
        assert agreement.correlation.mean == pytest.approx(drawn[metric].mean(), abs=1e-12)
        bounds = (agreement.correlation.low, agreement.correlation.high)
        assert bounds == pytest.approx(np.percentile(drawn[metric], [5, 95]), abs=1e-12)
        if metric == 1:
            assert agreement.difference is None
            continue
        deltas = drawn[metric] - drawn[1]
        p = min(1, 2 * (min((deltas <= 0).sum(), (deltas >= 0).sum()) + 1) / 151)
        assert agreement.difference.p == pytest.approx(p, abs=1e-12)
        bounds = (agreement.difference.low, agreement.difference.high)
        assert bounds == pytest.approx(np.percentile(deltas, [5, 95]), abs=1e-12)
        assert agreement.difference.value == pytest.approx(
            expected - SCIPY[kind](rows.scores[1], rows.ratings).statistic, abs=1e-12
        )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 4)), min_size=3, max_size=12),
    st.integers(0, 1000),
)
def test_draws_with_ties_and_constants_agree_with_scipy(table: list[tuple[int, int, int]], seed: int) -> None:
    scores, ratings, clusters = np.array(table).T
    rows = RatedSet(scores[None].astype(np.float64), ratings.astype(np.float64), clusters)
    for kind in ("pearson", "spearman"):
        result = mean_over_sets([RatedSet(rows.scores, rows.ratings, clusters)], kinds=[kind], draws=25, seed=seed)
        found = result.by_kind[kind][0].correlation
        whole = correlate(kind, rows.scores[0], rows.ratings)
        assert found.value == pytest.approx(whole.value, abs=1e-12)
        if found.why is not None:
            assert found.why in {whole.why, "fewer than 2 contexts", "it is undefined in every draw"}
            assert found.low is None
            continue
        drawn = plain_draws(kind, rows, 25, [seed, 0])
        assert found.undefined == np.isnan(drawn).sum()
        assert found.mean == pytest.approx(np.nanmean(drawn), abs=1e-12)
        assert found.low == pytest.approx(np.nanpercentile(drawn, 2.5), abs=1e-12)


def test_rows_that_one_metric_has_no_score_for_are_left_out_for_all() -> None:
    rows = some_rows()
    scores, ratings = rows.scores.copy(), rows.ratings.copy()
    scores[0, [3, 4]] = NAN
    scores[2, 4] = NAN
    ratings[9] = NAN
    result = mean_over_sets([RatedSet(scores, ratings, rows.clusters)], draws=30, baseline=0)
    kept = np.delete(np.arange(60), [3, 4, 9])
    alone = mean_over_sets([RatedSet(scores[:, kept], ratings[kept], rows.clusters[kept])], draws=30, baseline=0)
    assert result.by_kind == alone.by_kind
    count = result.sets[0]
    assert (count.rows, count.left_out, count.unrated, count.unscored) == (57, 3, 1, (2, 0, 1))
    assert count.contexts == len(np.unique(rows.clusters[kept]))


def test_baseline_in_another_unit_does_not_differ_from_it() -> None:
    rows = some_rows()
    scores = np.stack([rows.scores[0], rows.scores[0] * 100 / 3, rows.scores[0] - 1000])
    result = mean_over_sets([RatedSet(scores, rows.ratings, rows.clusters)], draws=200, baseline=0)
    for agreements in result.by_kind.values():
        for agreement in agreements[1:]:
            assert (agreement.difference.value, agreement.difference.p) == (0.0, 1.0)


def test_context_intervals_are_wider_if_contexts_decide_the_rating() -> None:
    random = np.random.default_rng(0)
    ratings = np.repeat(random.normal(size=30), 10)
    scores = np.repeat(random.normal(size=30), 10) + ratings
    contexts = np.repeat(np.arange(30), 10)
    whole = mean_over_sets([RatedSet(scores[None], ratings, contexts)], draws=500).by_kind["pearson"][0].correlation
    single = (
        mean_over_sets([RatedSet(scores[None], ratings, np.arange(300))], draws=500).by_kind["pearson"][0].correlation
    )
    assert whole.high - whole.low > 2 * (single.high - single.low)


def test_undefined_metrics_and_baselines_are_named() -> None:
    rows = some_rows()
    scores = np.concatenate([rows.scores, np.ones((1, 60))])
    agreements = mean_over_sets([RatedSet(scores, rows.ratings, rows.clusters)], draws=20, baseline=3).by_kind[
        "spearman"
    ]
    assert agreements[3].correlation.why == "all scores are equal"
    assert agreements[0].correlation.why is None
    assert agreements[0].difference.why == "the baseline: all scores are equal"
    assert agreements[0].difference.p is None
    scores[0] = NAN
    agreements = mean_over_sets([RatedSet(scores, rows.ratings, rows.clusters)], draws=20).by_kind["spearman"]
    assert [agreement.correlation.why for agreement in agreements] == ["fewer than 3 rows"] * 4
    one_context = mean_over_sets([RatedSet(rows.scores, rows.ratings, np.zeros(60))], draws=20, baseline=0).by_kind[
        "pearson"
    ][1]
    assert one_context.correlation.value is not None
    assert one_context.correlation.why == one_context.difference.why == "fewer than 2 contexts"
    assert one_context.difference.p is None


# Several sets


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_the_mean_over_sets_is_taken_in_every_draw(kind: str) -> None:
    sets = [some_rows(seed=1), some_rows(rows=35, contexts=9, seed=2)]
    result = mean_over_sets(sets, draws=80, seed=6, baseline=2)
    drawn = np.mean([plain_draws(kind, rows, 80, [6, s]) for s, rows in enumerate(sets)], axis=0)
    for metric, agreement in enumerate(result.by_kind[kind]):
        values = [SCIPY[kind](rows.scores[metric], rows.ratings).statistic for rows in sets]
        assert agreement.correlation.value == pytest.approx(np.mean(values), abs=1e-12)
        assert agreement.correlation.high == pytest.approx(np.percentile(drawn[metric], 97.5), abs=1e-12)
        if metric != 2:
            bound = np.percentile(drawn[metric] - drawn[2], 2.5)
            assert agreement.difference.low == pytest.approx(bound, abs=1e-12)
    assert [count.rows for count in result.sets] == [60, 35]


def test_the_set_in_which_there_is_no_correlation_is_named() -> None:
    flat = RatedSet(some_rows().scores, np.ones(60), some_rows().clusters)
    agreement = mean_over_sets([some_rows(), flat], draws=20).by_kind["pearson"][0]
    assert agreement.correlation.why == "in set 2 of 2: all ratings are equal"
    assert agreement.correlation.value is None


def test_the_same_seed_gives_the_same_result_and_it_is_plain_json() -> None:
    rows = some_rows()
    first, second, other = (mean_over_sets([rows, rows], draws=40, baseline=0, seed=seed) for seed in (1, 1, 2))
    assert first == second != other
    assert json.loads(json.dumps(asdict(first)))
    parts = (
        by_annotator(rows.scores[0], rows.ratings[:, None]),
        system_level(rows.scores[0], rows.ratings, rows.clusters % 5, rows.clusters // 5),
        leave_one_system_out(rows.scores[0], rows.ratings, rows.clusters % 4),
        *group_agreement(rows.scores[0], rows.ratings, draws=5),
        williams(0.3, 0.2, 0.1, 50),
        partial_spearman(rows.scores[0], rows.ratings, rows.scores[1]),
    )
    for part in parts:
        assert json.loads(json.dumps(asdict(part)))


def test_settings_and_shapes_that_make_no_sense_are_refused() -> None:
    rows = some_rows()
    with refusing(Usage):
        mean_over_sets([rows], baseline=3)
    with refusing(Usage, "kendall"):
        mean_over_sets([rows], kinds=["kendall"])
    with refusing(BadInput):
        mean_over_sets([RatedSet(rows.scores, rows.ratings[1:], rows.clusters)])
    with refusing(BadInput):
        mean_over_sets([rows, RatedSet(rows.scores[:2], rows.ratings, rows.clusters)])
    with refusing(BadInput):
        mean_over_sets([])
    with refusing(BadInput):
        mean_over_sets([RatedSet(np.array([[1, np.inf, 2]]), np.ones(3), np.ones(3))])
    with refusing(BadInput):
        leave_one_system_out(rows.scores[0], rows.ratings, np.array(["a", "b"]))


# Systems and groups


def test_systems_gain_nothing_from_easier_contexts() -> None:
    """Context 0 is easy by 10 in score and rating; apart from that, a > b > c in ratings and c > b > a in scores."""
    systems = np.array(["a", "b", "b", "c", "c", "a"])
    contexts = np.array([0, 0, 1, 1, 2, 2])
    ratings = np.array([13, 12, 2, 1, 1, 3.0])
    scores = np.array([11, 12, 2, 3, 3, 1.0])
    result = system_level(scores, ratings, systems, contexts)
    assert result.systems == ("a", "b", "c")
    assert result.ratings == pytest.approx((0.75, 0, -0.75))
    assert result.scores == pytest.approx((-0.75, 0, 0.75))
    for kind in KINDS:
        assert result.by_kind[kind] == Correlation(kind, pytest.approx(-1), None, 3, "fewer than 8 systems")
    assert pearson(scores, ratings).value > 0.9


def test_from_eight_systems_on_there_is_a_p() -> None:
    random = np.random.default_rng(4)
    systems, contexts = np.tile(np.arange(8), 10), np.repeat(np.arange(10), 8)
    ratings, scores = random.normal(size=(2, 80))
    result = system_level(scores, ratings, systems, contexts)
    tables = [values.reshape(10, 8) for values in (scores, ratings)]
    means = [(table - table.mean(axis=1, keepdims=True)).mean(axis=0) for table in tables]
    for kind in KINDS:
        expected = SCIPY[kind](*means)
        assert result.by_kind[kind].value == pytest.approx(expected.statistic, abs=1e-12)
        assert result.by_kind[kind].p == pytest.approx(expected.pvalue)
    assert result.rows == 80


def test_contexts_of_one_system_compare_nothing() -> None:
    systems = np.array([1, 2, 3, 1, 2, 2, 1])
    contexts = np.array([0, 0, 0, 1, 2, 2, 3])
    ratings = np.array([1, 2, 4, 9, 9, 7, NAN])
    result = system_level(np.arange(7.0), ratings, systems, contexts)
    assert (result.rows, result.left_out, result.alone) == (3, 1, 3)
    assert result.ratings == pytest.approx(np.array([1, 2, 4]) - 7 / 3)
    alone = system_level(np.arange(7.0), ratings, systems, np.arange(7))
    assert alone.systems == ()
    assert alone.by_kind["spearman"].why == "fewer than 3 systems"


def test_scores_that_depend_on_the_context_alone_say_nothing_of_systems() -> None:
    random = np.random.default_rng(0)
    systems, contexts = np.tile(np.arange(9), 7), np.repeat(np.arange(7), 9)
    result = system_level(np.repeat(random.normal(size=7), 9) * 0.1, random.normal(size=63), systems, contexts)
    assert {correlation.why for correlation in result.by_kind.values()} == {"all scores are equal"}


def test_each_system_is_left_out_in_turn() -> None:
    rows = some_rows()
    systems = np.array(["x", "y", "z"])[np.arange(60) % 3]
    for kind in ("spearman", "pearson"):
        result = leave_one_system_out(rows.scores[0], rows.ratings, systems, kind)
        expected = {s: correlate(kind, rows.scores[0][systems != s], rows.ratings[systems != s]) for s in "xyz"}
        assert result.each == expected
        values = [correlation.value for correlation in expected.values()]
        assert (result.lowest, result.highest) == (min(values), max(values))
    only = leave_one_system_out(rows.scores[0], rows.ratings, np.zeros(60))
    assert (only.mean, only.why) == (None, "fewer than 3 rows")


def test_groups_of_one_are_the_rows_and_large_ones_agree_better() -> None:
    rows = some_rows(rows=500, seed=8)
    one, five, fifty, too_large = group_agreement(rows.scores[2], rows.ratings, sizes=(1, 5, 50, 200), draws=200)
    for kind in ("pearson", "spearman"):
        whole = correlate(kind, rows.scores[2], rows.ratings).value
        assert one.by_kind[kind].value == pytest.approx(whole, abs=1e-12)
        assert one.by_kind[kind].low == one.by_kind[kind].high
        # The rows are independent, so means of groups correlate as the rows do: averaging alone changes nothing.
        assert five.by_kind[kind].value == pytest.approx(whole, abs=0.06)
        assert fifty.by_kind[kind].low < five.by_kind[kind].low < five.by_kind[kind].value
        assert too_large.by_kind[kind].why == "fewer than 3 groups of 200"
    assert [group.groups for group in (one, five, fifty, too_large)] == [500, 100, 10, 2]


def test_every_draw_deals_each_row_once() -> None:
    powers = 2.0 ** np.arange(24)  # the sum says which rows are in it
    means = np.concatenate(list(_deal_groups(np.stack([powers, -powers]), size=8, groups=3, draws=40, seed=1)), axis=1)
    assert means.shape == (2, 40, 3)
    assert (means.sum(axis=2) * 8 == np.array([[2.0**24 - 1], [1 - 2.0**24]])).all()
    assert [bin(int(mean * 8)).count("1") for mean in means[0].ravel()] == [8] * 120
    assert len(np.unique(means[0])) > 100


def test_groups_do_not_depend_on_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).permutation(24).astype(np.float64)
    whole = group_agreement(scores, scores**2, sizes=(6, 5), draws=40, seed=3)
    monkeypatch.setattr("refaug.metrics.statistics.agreement._BLOCK_CELLS", 100)
    assert group_agreement(scores, scores**2, sizes=(6, 5), draws=40, seed=3) == whole
    same = group_agreement(scores, scores * 2, sizes=(6,), draws=40)[0].by_kind
    assert (same["pearson"].value, same["spearman"].value) == pytest.approx((1, 1))


def test_draws_in_which_all_groups_are_equal_are_counted() -> None:
    flat = group_agreement(np.array([0.0, 0, 0, 1, 1, 1, 0]), np.ones(7), sizes=(2,))[0].by_kind["pearson"]
    assert flat.why == "all ratings are equal"
    mixed = group_agreement(np.array([0.0, 0, 0, 1, 1, 1]), np.arange(6.0), sizes=(2,), draws=300)[0].by_kind["pearson"]
    assert mixed.undefined > 50  # 0 1 | 0 1 | 0 1 in 2 of 5 deals
    assert mixed.undefined < 200


# Partial Spearman in every draw


@pytest.mark.parametrize("seed", range(5))
def test_partial_spearman_of_draws_is_that_of_the_drawn_rows(seed: int) -> None:
    rows = some_rows(seed=seed)
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 6, 60).astype(np.float64)
    scores = np.round(rows.scores - lengths, 1)
    lengthy = RatedSet(scores, rows.ratings, rows.clusters, lengths)

    found = drawn_correlations(lengthy, "partial-spearman", draws=20, seed=[seed, 0])

    points = [partial_spearman(one, rows.ratings, lengths).value for one in scores]
    np.testing.assert_allclose(found.points, np.array(points, np.float64), atol=1e-12)
    _, place = np.unique(rows.clusters, return_inverse=True)
    [counts] = count_blocks(place.max() + 1, 20, [seed, 0])
    for draw in range(20):
        drawn = np.repeat(np.arange(60), counts[draw][place].astype(np.int64))
        expected = [partial_spearman(one[drawn], rows.ratings[drawn], lengths[drawn]).value for one in scores]
        np.testing.assert_allclose(found.draws[:, draw], np.array(expected, np.float64), atol=1e-9)


def test_scores_that_length_explains_have_no_partial_correlation() -> None:
    rows = some_rows()
    lengths = np.arange(60, dtype=np.float64)
    scores = np.stack([lengths**2 - 90 * lengths, 3 * lengths, rows.scores[0]])

    found = drawn_correlations(
        RatedSet(scores, rows.ratings, rows.clusters, lengths), "partial-spearman", draws=5, seed=[1]
    )

    assert np.isnan(found.points[1])  # the ranks are those of the length
    assert np.isfinite(found.points[2])
    assert np.isnan(found.draws[1]).all()


def test_equal_lengths_leave_spearman_as_it_is() -> None:
    rows = some_rows()
    alike = RatedSet(rows.scores, rows.ratings, rows.clusters, np.full(60, 7.0))

    partial = drawn_correlations(alike, "partial-spearman", draws=10, seed=[3])
    plain = drawn_correlations(alike, "spearman", draws=10, seed=[3])

    np.testing.assert_allclose(partial.points, plain.points, atol=1e-12)
    np.testing.assert_allclose(partial.draws, plain.draws, atol=1e-12)


def test_partial_spearman_is_in_the_comparison_where_lengths_are_given() -> None:
    rows = some_rows()
    lengths = np.arange(60, dtype=np.float64) % 7
    with_lengths = RatedSet(rows.scores, rows.ratings, rows.clusters, lengths)

    found = mean_over_sets([with_lengths], kinds=["partial-spearman"], draws=30, baseline=0)

    values = [one.correlation.value for one in found.by_kind["partial-spearman"]]
    assert values == pytest.approx([partial_spearman(one, rows.ratings, lengths).value for one in rows.scores])
    with refusing(Usage):
        mean_over_sets([rows], kinds=["partial-spearman"], draws=3)
    with refusing(BadInput):
        drawn_correlations(
            RatedSet(rows.scores, rows.ratings, rows.clusters, lengths[1:]), "partial-spearman", draws=3, seed=[1]
        )
