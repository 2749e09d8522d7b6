"""The hybrid metric's fit beside statsmodels, its trap, its controls, and the recovery of coefficients."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from refusals import refusing
from scipy import stats

from refaug.core.errors import BadInput
from refaug.extras.conversations.hybrid_metric.agreement import agreement_of_bots, within_bots
from refaug.extras.conversations.hybrid_metric.controls import (
    permuted_bots,
    resampled_correlations,
    shuffled_in_folds,
    shuffled_ratings,
)
from refaug.extras.conversations.hybrid_metric.fit import (
    HybridWeights,
    Scored,
    bot_means,
    leave_one_bot_out,
    predict_conversations,
)
from refaug.extras.conversations.hybrids import HybridScores
from refaug.extras.conversations.reading import Conversation
from refaug.metrics.signature import Signature

Floats = NDArray[np.float64]
LAMBDAS = np.array([0.35, -0.25, 0.15, 0.0])
NOISE = math.sqrt((LAMBDAS**2).sum() * 1.5 * 0.85 / 0.15)  # components explain 15 % of single ratings


def study(seed: int, *, bots: int = 12, each: int = 47, noise: float = 1.0) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Conversations whose ratings are a known sum of components; bots differ in the components."""
    random = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(bots), each)
    features = random.normal(size=(len(numbers), len(LAMBDAS))) + random.normal(scale=0.7, size=(bots, 4))[numbers]
    ratings = 3.0 + features @ LAMBDAS + random.normal(scale=noise, size=len(numbers))
    return features, ratings, numbers


class ComparedName(str):
    """The name of a bot that counts how often it is compared."""

    comparisons = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        ComparedName.comparisons += 1
        return str.__eq__(self, other)


def test_means_of_many_bots_compare_no_bot_with_all_others() -> None:
    talks = [Conversation(id=f"c{n}", bot=ComparedName(f"b{n // 2}"), turns=()) for n in range(1_000)]
    scored = HybridScores(
        hybrid="h",
        signature=Signature(metric="mh", settings={}),
        conversations=talks,
        scores=np.arange(1_000.0),
        trained_on=(),
        missing={},
        left_out=frozenset(),
        rated={},
    )
    rows = scored.bots()
    assert [(row["bot"], row["mean"]) for row in rows[:2]] == [("b499", 998.5), ("b498", 996.5)]
    assert [(row["conversations"], row["standard_error"]) for row in rows] == [(2, pytest.approx(0.5))] * 500
    assert ComparedName.comparisons < 2_000


@pytest.mark.parametrize("intercept", ["common", "fold"])
def test_predictions_equal_ordinary_least_squares_of_statsmodels(intercept: str) -> None:
    features, ratings, bots = study(1)
    fit = leave_one_bot_out(features, ratings, bots, intercept=intercept)  # type: ignore[arg-type]
    for row, number in enumerate(np.unique(bots)):
        training = bots != number
        means, scales = features[training].mean(axis=0), features[training].std(axis=0)
        model = sm.OLS(ratings[training], sm.add_constant((features[training] - means) / scales)).fit()
        centre = means if intercept == "fold" else features.mean(axis=0)
        expected = ((features[~training].mean(axis=0) - centre) / scales) @ model.params[1:]
        expected += model.params[0] if intercept == "fold" else 0.0
        assert fit.predictions(ratings)[row] == pytest.approx(expected, abs=1e-10)
        assert fit.coefficients[row] == pytest.approx(model.params[1:], abs=1e-10)
        assert fit.conditions[row] == pytest.approx(np.linalg.cond((features[training] - means) / scales), rel=1e-9)


def test_ridge_solves_its_normal_equations() -> None:
    features, ratings, bots = study(2)
    fit = leave_one_bot_out(features, ratings, bots, penalty=0.1)
    training = bots != 3
    scaled = (features[training] - features[training].mean(axis=0)) / features[training].std(axis=0)
    gram = scaled.T @ scaled + 0.1 * len(scaled) * np.eye(4)
    assert fit.coefficients[3] == pytest.approx(np.linalg.solve(gram, scaled.T @ ratings[training]), abs=1e-10)


def test_an_intercept_per_fold_alone_has_correlation_minus_one() -> None:
    _, ratings, bots = study(3)
    means = bot_means(ratings, bots)
    nothing = np.zeros((len(ratings), 1))
    fold = leave_one_bot_out(nothing, ratings, bots, intercept="fold").predictions(ratings)
    assert agreement_of_bots(fold, means).pearson == pytest.approx(-1.0, abs=1e-12)
    common = agreement_of_bots(leave_one_bot_out(nothing, ratings, bots).predictions(ratings), means)
    assert common.pearson is None
    assert common.reason == "the predictions or the ratings are the same for all bots"


def test_coefficients_are_recovered_within_two_standard_errors() -> None:
    hits = total = 0
    for seed in range(40):
        features, ratings, bots = study(seed, noise=NOISE)
        fit = leave_one_bot_out(features, ratings, bots)
        training = bots != 0
        scaled = (features[training] - features[training].mean(axis=0)) / fit.scales[0]
        errors = sm.OLS(ratings[training], sm.add_constant(scaled)).fit().bse[1:]
        hits += int((np.abs(fit.coefficients[0] - LAMBDAS * fit.scales[0]) <= 2 * errors).sum())
        total += len(LAMBDAS)
    assert hits / total >= 0.93


def test_a_real_effect_is_found_and_shuffled_ratings_are_centred() -> None:
    reached = 0
    for seed in range(20):
        features, ratings, bots = study(100 + seed, noise=NOISE)
        correlation = agreement_of_bots(
            leave_one_bot_out(features, ratings, bots).predictions(ratings), bot_means(ratings, bots)
        ).pearson
        reached += correlation is not None and correlation >= 0.7
    assert reached >= 16
    features, ratings, bots = study(5)
    control = shuffled_ratings(leave_one_bot_out(features, ratings, bots), ratings, bots, draws=1000, seed=4)
    assert abs(control.centre) <= 0.05
    assert -0.12 <= control.mean <= 0.05  # the mean of r leans below 0: each draw is divided by its own spread
    assert -0.9 < control.low < -0.3
    assert 0.3 < control.high < 0.9
    assert not control.contains(0.95)


@pytest.mark.parametrize("seed", range(200, 206))
def test_shuffled_ratings_are_centred_whatever_the_bots_are(seed: int) -> None:
    """The expected covariance of predictions and means is 0 with equal numbers; in any study the centre is near it."""
    features, ratings, bots = study(seed)
    fit = leave_one_bot_out(features, ratings, bots)
    assert fit.operator.sum(axis=1) == pytest.approx(np.zeros(12), abs=1e-12)
    control = shuffled_ratings(fit, ratings, bots, draws=4000, seed=seed)
    assert abs(control.centre) <= 0.05


@pytest.mark.parametrize("seed", range(3))
def test_ratings_shuffled_in_folds_have_a_mean_correlation_of_nothing(seed: int) -> None:
    """Whatever the numbers of conversations; the published intercept is what pulls it below 0."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 200, 11)
    bots = np.repeat(np.arange(11), sizes)
    features = rng.normal(size=(len(bots), 6)) + rng.normal(size=(11, 6))[bots]
    ratings = features @ rng.normal(size=6) * 0.2 + rng.normal(size=len(bots))
    common = shuffled_in_folds(leave_one_bot_out(features, ratings, bots), ratings, bots, draws=1000, seed=seed)
    assert abs(common.mean) <= 0.05
    assert common.error == pytest.approx(0.01, abs=0.004)
    fold = shuffled_in_folds(
        leave_one_bot_out(features, ratings, bots, intercept="fold"), ratings, bots, draws=1000, seed=seed
    )
    assert fold.mean < -0.15


def test_ratings_shuffled_in_folds_equal_a_refit_of_each_draw() -> None:
    features, ratings, bots = study(7, bots=5, each=9)
    control = shuffled_in_folds(leave_one_bot_out(features, ratings, bots), ratings, bots, draws=30, seed=8)
    random = np.random.Generator(np.random.PCG64(8))
    drawn = []
    for _ in range(30):
        order, predicted = random.permutation(len(ratings)), []
        for bot in range(5):
            shuffled = ratings.copy()
            shuffled[bots != bot] = ratings[[place for place in order if bots[place] != bot]]
            predicted.append(leave_one_bot_out(features, shuffled, bots).predictions(shuffled)[bot])
        drawn.append(stats.pearsonr(predicted, bot_means(ratings, bots)).statistic)
    assert control.mean == pytest.approx(np.mean(drawn), abs=1e-9)
    assert control.error == pytest.approx(np.std(drawn, ddof=1) / math.sqrt(30), abs=1e-9)
    assert (control.low, control.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=1e-9)


def test_shuffled_ratings_equal_a_refit_of_each_draw() -> None:
    features, ratings, bots = study(6, bots=5, each=9)
    fit = leave_one_bot_out(features, ratings, bots)
    control = shuffled_ratings(fit, ratings, bots, draws=40, seed=9)
    random = np.random.Generator(np.random.PCG64(9))
    drawn, pairs = [], []
    for _ in range(40):
        shuffled = random.permutation(ratings)
        predicted = leave_one_bot_out(features, shuffled, bots).predictions(shuffled)
        pairs.append((predicted, bot_means(shuffled, bots)))
        drawn.append(stats.pearsonr(predicted, bot_means(shuffled, bots)).statistic)
    assert control.mean == pytest.approx(np.mean(drawn), abs=1e-9)
    moments = np.mean([np.cov(*pair, bias=True) for pair in pairs], axis=0)
    assert control.centre == pytest.approx(moments[0, 1] / math.sqrt(moments[0, 0] * moments[1, 1]), abs=1e-9)
    assert (control.low, control.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=1e-9)


def test_permuted_bots_count_all_orders_of_a_few() -> None:
    predictions, means = np.array([1.0, 2.0, 4.0, 3.0, 5.5]), np.array([0.1, 0.3, 0.2, 0.4, 0.9])
    observed = stats.pearsonr(predictions, means).statistic
    reached = [stats.pearsonr(predictions, order).statistic >= observed - 1e-12 for order in permutations(means)]
    control = permuted_bots(predictions, means)
    assert (control.orders, control.is_exact, control.p) == (120, True, sum(reached) / 120)
    drawn = permuted_bots(np.arange(10.0), np.arange(10.0), draws=500)
    assert (drawn.orders, drawn.is_exact, drawn.p) == (501, False, 1 / 501)
    assert permuted_bots(np.ones(5), means).p == 1.0


def test_below_five_bots_there_is_no_correlation_but_a_reason() -> None:
    agreement = agreement_of_bots(np.arange(4.0), np.arange(4.0))
    assert (agreement.pearson, agreement.spearman, agreement.kendall) == (None, None, None)
    assert "4 bots says nothing" in agreement.reason


def test_a_missing_component_counts_as_the_mean() -> None:
    features, ratings, bots = study(7)
    holes = features.copy()
    holes[::7, 2] = math.nan
    filled = holes.copy()
    training = bots != 4
    filled[np.isnan(filled[:, 2]), 2] = np.nanmean(holes[training, 2])
    fit = leave_one_bot_out(holes, ratings, bots)
    scale = math.sqrt(
        ((filled[training, 2] - filled[training, 2].mean()) ** 2).sum() / (~np.isnan(holes[training, 2])).sum()
    )
    assert fit.scales[4, 2] == pytest.approx(scale, rel=1e-12)
    expected = sm.OLS(ratings[training], sm.add_constant(filled[training])).fit().params[3] * scale
    assert fit.coefficients[4, 2] == pytest.approx(expected, abs=1e-10)


def test_components_that_say_the_same_share_their_coefficient() -> None:
    features, ratings, bots = study(8)
    doubled = np.column_stack([features, features[:, 0]])
    single, double = (leave_one_bot_out(table, ratings, bots) for table in (features, doubled))
    assert double.predictions(ratings) == pytest.approx(single.predictions(ratings), abs=1e-9)
    assert double.coefficients[:, 0] == pytest.approx(double.coefficients[:, 4], abs=1e-9)


def test_self_play_is_scored_by_the_fit_on_people() -> None:
    features, ratings, bots = study(9)
    play = Scored(features[::2] + 1.0, bots[::2])
    shifted = leave_one_bot_out(features, ratings, bots, scored=play).predictions(ratings)
    same = leave_one_bot_out(features, ratings, bots, scored=Scored(features[::2], bots[::2])).predictions(ratings)
    assert shifted == pytest.approx(same, abs=1e-9)  # a level that all bots share is no difference between bots
    with refusing(BadInput):
        leave_one_bot_out(features, ratings, bots, scored=Scored(features[bots != 3], bots[bots != 3]))


@pytest.mark.parametrize("intercept", ["common", "fold"])
def test_conversations_that_lack_a_component_lie_at_its_mean_in_a_prediction(intercept: str) -> None:
    features, ratings, bots = study(12)
    features += 5.0  # so that a 0 would be far away
    random = np.random.default_rng(4)
    features[random.random(features.shape) < 0.2] = np.nan
    features[bots == 3, 1] = np.nan  # no conversation with this bot has it
    fit = leave_one_bot_out(features, ratings, bots, intercept=intercept)  # type: ignore[arg-type]
    for row, number in enumerate(np.unique(bots)):
        training = bots != number
        means, scales = np.nanmean(features[training], axis=0), np.nanstd(features[training], axis=0)
        filled = np.nan_to_num((features[training] - means) / scales)
        model = sm.OLS(ratings[training], sm.add_constant(filled)).fit()
        centre = means if intercept == "fold" else np.nanmean(features, axis=0)
        own = np.nan_to_num((features[~training] - centre) / scales).mean(axis=0)
        expected = own @ model.params[1:] + (model.params[0] if intercept == "fold" else 0.0)
        assert fit.predictions(ratings)[row] == pytest.approx(expected, abs=1e-9)
    names = [f"b{number}" for number in range(12)]
    weights = HybridWeights.of(LAMBDAS.astype(str).tolist(), features, ratings, bots, names, intercept=intercept)  # type: ignore[arg-type]
    scores = weights.scores(features, [names[number] for number in bots])
    assert bot_means(scores, bots) == pytest.approx(fit.predictions(ratings), abs=1e-9)
    assert np.isnan(bot_means(features[:, 1], bots)).tolist() == [number == 3 for number in range(12)]


def test_conversations_are_predicted_by_the_fit_without_their_bot() -> None:
    features, ratings, bots = study(10)
    predicted = predict_conversations(features, ratings, bots)
    fit = leave_one_bot_out(features, ratings, bots, intercept="fold")
    others = np.array([ratings[bots != number].mean() for number in range(12)])
    assert bot_means(predicted, bots) + others == pytest.approx(fit.predictions(ratings), abs=1e-9)
    expected = [stats.pearsonr(predicted[bots == number], ratings[bots == number]).statistic for number in range(12)]
    assert within_bots(predicted, ratings, bots) == pytest.approx(np.mean(expected), abs=1e-12)


def test_resampled_correlations_equal_a_plain_refit_and_are_paired() -> None:
    features, ratings, bots = study(11, bots=6, each=12)
    sets = {"all": features, "first": features[:, :1]}
    drawn = resampled_correlations(sets, ratings, bots, draws=6, seed=3)
    random = np.random.Generator(np.random.PCG64(3))
    for draw in range(6):
        chosen = random.integers(0, 6, 6)
        rows = [random.choice(np.flatnonzero(bots == number), 12) for number in chosen]
        for name, table in sets.items():
            predicted = []
            centre = np.concatenate([table[part] for part in rows]).mean(axis=0)
            for copy, number in enumerate(chosen):
                training = np.concatenate([part for part, other in zip(rows, chosen, strict=True) if other != number])
                means, scales = table[training].mean(axis=0), table[training].std(axis=0)
                model = sm.OLS(ratings[training], sm.add_constant((table[training] - means) / scales)).fit()
                predicted.append(((table[rows[copy]].mean(axis=0) - centre) / scales) @ model.params[1:])
            means_of_bots = [ratings[part].mean() for part in rows]
            expected = stats.pearsonr(predicted, means_of_bots).statistic
            assert drawn.of_set[name][draw] == pytest.approx(expected, abs=1e-9)
    difference = drawn.difference("all", "first")
    low, high = np.quantile(drawn.of_set["all"] - drawn.of_set["first"], [0.025, 0.975])
    assert (difference.low, difference.high, difference.draws) == (pytest.approx(low), pytest.approx(high), 6)


def test_ratings_that_are_missing_are_refused() -> None:
    features, ratings, bots = study(12)
    ratings[0] = math.nan
    with refusing(BadInput):
        leave_one_bot_out(features, ratings, bots)
    with refusing(BadInput):
        leave_one_bot_out(features[:5], np.ones(5), np.zeros(5, np.int64))
