"""Ordered levels under crossed random intercepts against R's ordinal and lme4, and against what each value must be."""

import os
import shutil
import subprocess

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.metrics.statistics.cumulative_logit import cumulative_logit_cost, cumulative_logit_fit, is_separated

R = shutil.which("Rscript")
# With FACTORS as (1 | p) + (1 | i), and the columns y, s, p and i of `drawn` as CSV. ordinal 2022.11.16, R 4.2.2.
CLMM = """
if (!requireNamespace("ordinal", quietly = TRUE)) quit(status = 3)
library(ordinal)
d <- as.data.frame(lapply(read.csv(file("stdin")), factor))
m <- clmm(y ~ s + FACTORS, d, control = clmm.control(useMatrix = TRUE, ctrl = list(gradTol = 1e-8, maxIter = 200)))
fixed <- length(m$alpha) + length(m$beta)
cat(format(c(m$logLik, coef(m)[1:fixed], sqrt(diag(vcov(m)))[1:fixed], unlist(VarCorr(m))), digits = 9))
"""
SETS = {  # seed, people, items, systems, share of all ratings, SDs of people and items, thresholds
    "crossed": (1, 14, 9, 3, 0.4, (1, 0.8), (-1, 0, 1.5, 2.5)),
    "few": (2, 8, 5, 2, 0.7, (1.2, 0.8), (-0.5, 1)),
    "seven": (3, 40, 10, 4, 0.25, (1, 0.7), (-2, -1, 0, 0.5, 1.5, 3)),
    "two": (5, 20, 8, 3, 0.4, (1, 0.5), (0.3,)),
}
RECORDED = {  # set, factors → log likelihood, thresholds, effects but the first, their standard errors, variances
    ("crossed", "pi"): (
        [-231.147423],
        [-1.193737, -0.176886, 1.216074, 2.333497],
        [0.368296, 0.768116],
        [0.402336, 0.387353, 0.397784, 0.430976, 0.371862, 0.381715],
        [0.344576, 0.380996],
    ),
    ("few", "p"): ([-65.866009], [-1.452871, -0.005448], [0.066888], [0.53786, 0.495231, 0.496225], [0.901856]),
    ("seven", "pi"): (
        [-732.719966],
        [-1.92173, -0.895574, 0.003757, 0.517113, 1.516222, 2.973992],
        [0.674894, 0.992093, 1.688639],
        [0.32925, 0.312056, 0.308421, 0.309225, 0.316842, 0.341304, 0.264013, 0.268288, 0.283329],
        [1.489095, 0.136122],
    ),
    ("two", "pi"): (
        [-136.029575],
        [0.238011],
        [0.367068, 0.391875],
        [0.339315, 0.383982, 0.376443],
        [0.883748, 0.0],
    ),
}


def drawn(name):
    """Return levels, and the places of their systems, people and items."""
    seed, people, items, systems, share, (sd_people, sd_items), thresholds = SETS[name]
    random = np.random.default_rng(seed)
    of_people, of_items = random.normal(size=people) * sd_people, random.normal(size=items) * sd_items
    rows = [
        (
            np.searchsorted(thresholds, system / 2 + of_people[person] + of_items[item] + random.logistic()),
            system,
            person,
            item,
        )
        for person in range(people)
        for system in range(systems)
        for item in range(items)
        if random.random() < share
    ]
    level, system, person, item = (np.unique(column, return_inverse=True)[1] for column in np.array(rows).T)
    return level, system, {"p": person, "i": item}


def fitted(name, factors):
    """Return log likelihood, thresholds, effects but the first, their standard errors, and variances."""
    level, system, by_name = drawn(name)
    fit = cumulative_logit_fit(level, system, [by_name[factor] for factor in factors])
    errors = np.delete(np.sqrt(np.diag(fit.covariance)), len(fit.thresholds))
    return [fit.log_likelihood, *fit.thresholds, *fit.effects[1:], *errors, *fit.variances]


def by_clmm(name, factors):
    level, system, by_name = drawn(name)
    table = "\n".join(
        ["y,s,p,i", *(",".join(map(str, row)) for row in zip(level, system, *by_name.values(), strict=True))]
    )
    code = CLMM.replace("FACTORS", " + ".join(f"(1 | {factor})" for factor in factors))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [str(R), "-e", code], input=table, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode == 3:
        pytest.skip("R has no package ordinal")
    assert ended.returncode == 0, ended.stderr
    return [float(figure) for figure in ended.stdout.split()]


@pytest.mark.parametrize(("name", "factors"), RECORDED)
def test_fit_is_that_of_clmm(name, factors):
    assert fitted(name, factors) == pytest.approx(np.concatenate(RECORDED[name, factors]), abs=1e-4)


@pytest.mark.skipif(R is None, reason="R is not installed")
def test_fit_is_that_of_clmm_that_is_installed():
    assert fitted("few", "pi") == pytest.approx(by_clmm("few", "pi"), abs=1e-4)


def test_two_levels_are_a_logistic_model_as_lme4_fits_it():
    # glmer(y ~ s + (1 | p), d, family = binomial, control = glmerControl("bobyqa", tolPwrss = 1e-12)), lme4 1.1-31
    likelihood, threshold, *rest = fitted("two", "p")
    assert likelihood == pytest.approx(-136.0295723461, abs=1e-8)
    assert -threshold == pytest.approx(-0.2380236158, abs=1e-6)
    assert rest == pytest.approx([0.3671037, 0.3918981, 0.3393181, 0.3839822, 0.3764426, 0.9401**2], abs=1e-4)


def test_levels_turned_round_turn_thresholds_and_effects():
    level, system, by_name = drawn("crossed")
    there = cumulative_logit_fit(level, system, list(by_name.values()))
    back = cumulative_logit_fit(level.max() - level, system, list(by_name.values()))
    assert back.effects == pytest.approx(-there.effects, abs=1e-6)
    assert back.thresholds == pytest.approx(-there.thresholds[::-1], abs=1e-6)
    assert back.log_likelihood == pytest.approx(there.log_likelihood, abs=1e-8)
    contrast = np.array([0, -1.0, 1])
    assert back.standard_error(contrast) == pytest.approx(there.standard_error(contrast), abs=1e-6)


def test_factors_may_stand_in_any_order():
    level, system, by_name = drawn("seven")
    there, back = (cumulative_logit_fit(level, system, [by_name[name] for name in names]) for names in ("pi", "ip"))
    assert back.effects == pytest.approx(there.effects, abs=1e-6)
    assert back.variances[::-1] == pytest.approx(there.variances, abs=1e-6)


def test_a_factor_without_variance_changes_nothing():
    without, with_items = fitted("two", "p"), fitted("two", "pi")
    assert with_items[:-1] == pytest.approx(without, abs=1e-6)
    assert with_items[-1] == pytest.approx(0, abs=1e-9)


def test_levels_without_a_peak_are_refused():
    person, system = np.repeat(np.arange(10), 4), np.tile([0, 1], 20)
    for level in (
        np.zeros(40, np.intp),  # all the same
        person % 3,  # each person's all the same
        person % 3 + system,  # each person rates the second system higher by one
        system * (1 + person % 2),  # no rating of the second system is below one of the first
    ):
        with refusing(BadInput):
            cumulative_logit_fit(level, system, [person])


def test_systems_are_separated_where_none_has_ratings_on_both_sides_of_a_level():
    assert is_separated(np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]))
    assert is_separated(np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]))
    assert not is_separated(np.array([0, 2, 1, 1]), np.array([0, 0, 1, 1]))
    assert not is_separated(np.array([0, 1, 2]), np.zeros(3, np.intp))


def test_each_factorisation_asks_whether_to_go_on():
    class Stop(Exception):
        """The work is ended."""

    def look():
        asked.append(1)
        if len(asked) == 3:
            raise Stop

    asked = []
    level, system, by_name = drawn("crossed")
    with pytest.raises(Stop):
        cumulative_logit_fit(level, system, list(by_name.values()), look)


def test_the_cost_counts_parameters_ratings_and_the_smaller_factor():
    assert cumulative_logit_cost(100, [20], 5, 3) == (60 + 12 * 7) * (5_000_000 + 300 * 100)
    assert cumulative_logit_cost(100, [20, 10], 5, 3) == (60 + 12 * 8) * (5_000_000 + 10**3 + 350 * 100)
