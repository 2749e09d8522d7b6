"""Crossed random intercepts against lme4, which other people wrote, and against what each value must be.

The figures of lme4 1.1-31 (R 4.2.2) were made from the columns y, s, p and i of `small_set`, written as CSV:

    m <- lmer(y ~ 0 + s + (1 | p) + (1 | i), d, control = lmerControl(optimizer = "bobyqa",
              optCtrl = list(rhoend = 1e-10, maxfun = 1e5), check.conv.singular = "ignore"))
    fixef(m); as.data.frame(VarCorr(m))$vcov; REMLcrit(m)
    # Satterthwaite, as lmerTest: over w = (theta, sigma), those of theta at 0 held there
    f <- update(m, devFunOnly = TRUE); pp <- environment(f)$pp; resp <- environment(f)$resp
    n <- nrow(d); k <- length(fixef(m)); at <- c(getME(m, "theta"), sigma(m)); free <- at > 1e-6
    put <- function(w) { v <- at; v[free] <- w; f(head(v, -1)); tail(v, 1)^2 }
    full <- function(w) { s2 <- put(w); pp$ldL2() + pp$ldRX2() + (n - k) * log(2 * pi * s2) +
                          (resp$wrss() + pp$sqrL(1)) / s2 }
    C <- function(w) { s2 <- put(w); s2 * as.matrix(pp$unsc()) }
    A <- 2 * solve(numDeriv::hessian(full, at[free]))
    df <- function(l) { v <- function(w) drop(l %*% C(w) %*% l); g <- numDeriv::grad(v, at[free])
                        2 * v(at[free])^2 / drop(g %*% A %*% g) }

SE and df are those of the first mean and of the second less the first.
"""

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.metrics.statistics.crossed_model import crossed_fit, is_told_apart

SETS = {  # seed, people, items, systems, share of all ratings, SDs of people, items and residual
    "crossed": (1, 12, 9, 3, 0.4, (1, 0.6, 0.8)),
    "few": (2, 8, 5, 2, 0.35, (0.7, 0.3, 1)),
    "boundary": (4, 9, 6, 2, 0.4, (0.8, 0, 1)),
}
LME4 = {  # set, factors → means, variances, REMLcrit, SE, df
    ("crossed", "pi"): (
        [3.90068749040, 4.48404371026, 4.78952579249],
        [0.41561643172, 0.05145607426, 0.58804709845],
        343.865437137,
        [0.2321428292, 0.1678155235],
        [18.390759, 117.854202],
    ),
    ("crossed", "p"): (
        [3.92431833163, 4.46869851543, 4.82232450041],
        [0.3995590916, 0.6365938627],
        346.73659699,
        [0.2180636610, 0.1715661672],
        [16.885573, 120.908099],
    ),
    ("few", "pi"): (
        [4.34127788395, 4.06472644426],
        [0.4372892379, 0.2903663147, 1.1355156507],
        74.4289893113,
        [0.4818701690, 0.5477412526],
        [8.5465764, 19.3413912],
    ),
    ("few", "p"): (
        [4.39193042703, 3.98445062842],
        [0.4739457798, 1.3478764825],
        75.0414531841,
        [0.4415391958, 0.5684657371],
        [10.666118, 20.525094],
    ),
    ("boundary", "pi"): (
        [3.79713022614, 4.15920172357],
        [1.1435430422, 0.0, 0.9615985103],
        141.879096619,
        [0.4078905860, 0.3130076549],
        [9.8615504, 36.3867741],
    ),
}


def small_set(name):
    """Return ratings with one decimal, and the places of their systems, people and items."""
    seed, people, items, systems, share, (sd_people, sd_items, sd) = SETS[name]
    random = np.random.default_rng(seed)
    of_people, of_items = random.normal(size=people) * sd_people, random.normal(size=items) * sd_items
    rows = [
        (4 + 0.4 * system + of_people[person] + of_items[item] + random.normal() * sd, system, person, item)
        for person in range(people)
        for system in range(systems)
        for item in range(items)
        if random.random() < share
    ]
    table = np.array(rows)
    system, person, item = (np.unique(table[:, column], return_inverse=True)[1] for column in (1, 2, 3))
    return np.round(table[:, 0], 1), system, {"p": person, "i": item}


def contrasts(systems):
    """Return the first mean, and the second less the first."""
    first, second = np.eye(systems)[:2]
    return first, second - first


@pytest.mark.parametrize(("name", "factors"), LME4)
def test_fit_is_that_of_lme4(name, factors):
    means, variances, criterion, errors, degrees = LME4[name, factors]
    numbers, system, by_name = small_set(name)
    fit = crossed_fit(numbers, system, [by_name[factor] for factor in factors])
    assert fit.means == pytest.approx(means, rel=1e-6)
    assert [*fit.variances, fit.residual] == pytest.approx(variances, rel=1e-4, abs=1e-12)
    assert fit.deviance == pytest.approx(criterion, abs=1e-8)
    assert [fit.standard_error(each) for each in contrasts(len(means))] == pytest.approx(errors, rel=1e-6)
    assert [fit.degrees_of_freedom(each) for each in contrasts(len(means))] == pytest.approx(degrees, rel=1e-4)


def test_factors_may_stand_in_any_order():
    numbers, system, by_name = small_set("crossed")
    there, back = (crossed_fit(numbers, system, [by_name[name] for name in names]) for names in ("pi", "ip"))
    assert back.means == pytest.approx(there.means, rel=1e-12)
    assert back.variances[::-1] == pytest.approx(there.variances, rel=1e-9)
    contrast = contrasts(3)[1]
    assert back.degrees_of_freedom(contrast) == pytest.approx(there.degrees_of_freedom(contrast), rel=1e-9)


def test_balanced_ratings_have_the_difference_and_error_of_a_paired_t_test():
    random = np.random.default_rng(7)
    table = random.normal(size=(10, 2)) + 2 * random.normal(size=(10, 1)) + [0.5, 0]
    fit = crossed_fit(table.ravel(), np.tile([0, 1], 10), [np.repeat(np.arange(10), 2)])
    gaps, contrast = table[:, 0] - table[:, 1], np.array([1.0, -1.0])
    assert fit.means @ contrast == pytest.approx(gaps.mean())
    assert fit.standard_error(contrast) == pytest.approx(gaps.std(ddof=1) / np.sqrt(10))
    assert fit.degrees_of_freedom(contrast) == pytest.approx(9)


def test_ratings_without_a_residual_are_refused():
    levels = np.repeat([1.0, 3.0, 5.0], 2)
    for numbers in (np.full(6, 4.0), levels):  # all the same; each person's all the same
        with refusing(BadInput):
            crossed_fit(numbers, np.tile([0, 1], 3), [np.repeat(np.arange(3), 2)])


def test_constant_ratings_of_each_system_or_sum_of_levels_are_refused_whatever_rounding_leaves():
    random = np.random.default_rng(9)
    for _ in range(100):
        people, systems, scale = int(random.integers(6, 30)), int(random.integers(1, 5)), random.choice([1, 3, 7, 1e3])
        system, person = np.tile(np.arange(systems), people * 2), np.repeat(np.arange(people), systems * 2)
        item = np.arange(len(person)) // systems % 5
        of_systems, of_people, of_items = (np.round(random.normal(size=n) * 9) / scale for n in (systems, people, 5))
        for numbers, factors in (
            (of_systems[system], [person]),
            (of_systems[system], [person, item]),
            ((of_systems[system] + of_people[person]), [person]),
            ((of_systems[system] + of_people[person] + of_items[item]), [person, item]),
        ):
            with refusing(BadInput):
                crossed_fit(numbers, system, factors)


def test_each_product_of_a_fit_asks_whether_to_go_on():
    class Stop(Exception):
        """The work is ended."""

    def look():
        asked.append(1)
        if len(asked) == 3:
            raise Stop

    asked = []
    numbers, system, by_name = small_set("crossed")
    with pytest.raises(Stop):
        crossed_fit(numbers, system, list(by_name.values()), look)


def test_a_factor_is_told_apart_where_levels_repeat_and_differ_within_systems():
    system = np.array([0, 0, 1, 1])
    assert is_told_apart(system, np.array([0, 1, 0, 1]))
    assert not is_told_apart(system, np.array([0, 1, 2, 3]))  # a level a rating
    assert not is_told_apart(system, np.array([0, 0, 0, 0]))  # one level
    assert not is_told_apart(system, np.array([0, 0, 1, 1]))  # a level a system
