"""The ordinal mixed model of a study's ratings: when there is one, what it says, and what it costs."""

from math import exp

import numpy as np
import pytest
from study_tasks import protocol, study_task

from refaug.extras.studies.figures.crossed_rows import crossed_rows
from refaug.extras.studies.figures.ordinal_model import better_share, ordinal_cost, ordinal_model
from refaug.extras.studies.questions import protocol_questions, rating_rows
from refaug.extras.studies.report.numbers import study_report
from refaug.extras.studies.report.pages import study_markdown
from refaug.metrics.statistics.cumulative_logit import cumulative_logit_cost, cumulative_logit_fit

FORM = protocol("quality", analysis={"draws": 100})


def rows_of(tasks):
    return list(rating_rows(tasks, protocol_questions(FORM, tasks)))


def judged(people, *, bots="ab", items=5, step=1.0, seed=1):
    """Return ratings from 1 to 5 of items by people; each bot is a step of log odds better than the one before."""
    random = np.random.default_rng(seed)
    strict, easy = random.normal(size=people), random.normal(size=items)
    return [
        study_task(
            f"P-{person}",
            (bot,),
            {"quality": 1 + int(np.searchsorted([-1, 0, 1.5, 3], latent))},
            item={"id": f"item-{item}", "unit": f"item-{item}/{bot}"},
        )
        for person in range(people)
        for item in range(items)
        for place, bot in enumerate(bots)
        for latent in [step * place + strict[person] + easy[item] + random.logistic()]
    ]


def test_log_odds_of_bots_and_pairs_are_those_of_the_fit():
    rows = rows_of(judged(30, bots="abc"))
    model, crossed = ordinal_model(rows, level=0.95), crossed_rows(rows, ())
    levels, given = np.unique(crossed.numbers, return_inverse=True)
    fit = cumulative_logit_fit(given, crossed.bot, list(crossed.factors.values()))
    assert model.levels == tuple(levels) == (1, 2, 3, 4, 5)
    assert [bot.first for bot in model.bots] == ["c", "b", "a"]
    assert [bot.log_odds for bot in model.bots] == pytest.approx((fit.effects - fit.effects.mean())[::-1])
    assert {bot.second for bot in model.bots} == {None}
    assert model.thresholds == pytest.approx(fit.thresholds - fit.effects.mean())
    assert [(pair.first, pair.second) for pair in model.differences] == [("c", "b"), ("c", "a"), ("b", "a")]
    apart = model.differences[1]
    assert apart.log_odds == pytest.approx(fit.effects[2])
    assert apart.se == pytest.approx(fit.standard_error(np.array([-1.0, 0, 1])))
    assert (apart.low, apart.high) == pytest.approx(
        (apart.log_odds - 1.959964 * apart.se, apart.log_odds + 1.959964 * apart.se)
    )
    assert apart.low < 2 < apart.high
    assert apart.p < 0.001
    assert apart.better == better_share(apart.log_odds)
    assert [(share.of, share.levels) for share in model.variances] == [
        ("participants", 30),
        ("items", 5),
        ("residual", 450),
    ]
    assert model.variances[2].variance == pytest.approx(np.pi**2 / 3)
    assert sum(share.share for share in model.variances) == pytest.approx(1)


def test_the_share_that_is_better_is_that_of_two_logistic_variables():
    shift = 1.3
    grid = np.arange(0.5, 100_000) / 100_000
    lower = np.log(grid / (1 - grid))  # where the other one is
    assert better_share(shift) == pytest.approx(np.mean(1 / (1 + np.exp(-lower - shift))), abs=1e-6)
    assert better_share(-shift) == pytest.approx(1 - better_share(shift))
    assert better_share(0) == 0.5
    assert better_share(0.001) == pytest.approx(0.5 + 0.001 / 6, abs=1e-9)
    assert better_share(40) == pytest.approx(1 - 39 * exp(-40))


def test_five_participants_have_no_interval_and_no_p():
    five, six = (ordinal_model(rows_of(judged(people, bots="abc")), level=0.95) for people in (5, 6))
    assert (five.differences[0].low, five.differences[0].p, five.differences[0].p_holm) == (None, None, None)
    assert five.bots[0].low is None
    assert ordinal_model(rows_of(judged(6)), level=0.95).bots == ()  # of two bots: the pair says it
    assert six.differences[0].low < six.differences[0].log_odds < six.differences[0].high


@pytest.mark.parametrize("answer", [lambda n: n % 8, lambda n: n % 3 / 2])
def test_ratings_of_more_levels_or_between_whole_numbers_have_no_ordinal_model(answer):
    tasks = [study_task(f"P-{n % 9}", ("ab"[n % 2],), {"quality": answer(n * 7 % 31)}) for n in range(90)]
    assert ordinal_model(rows_of(tasks), level=0.95) is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda bot, n: 4, "all ratings are the same"),
        (lambda bot, n: 1 + n % 2 + 2 * (bot == "a"), "a level parts the bots"),
        (lambda bot, n: 1 + n % 4 + (bot == "a"), "participants or items part the levels"),
    ],
)
def test_a_model_that_cannot_be_fitted_says_why(answer, why):
    tasks = [study_task(f"P-{n}", (bot,), {"quality": answer(bot, n)}) for n in range(9) for bot in "aabb"]
    model = ordinal_model(rows_of(tasks), level=0.95)
    assert why in model.why
    assert (model.bots, model.differences, model.ratings) == ((), (), 36)


def test_the_scale_decides_whether_its_levels_are_few():
    rows = rows_of(judged(8))
    assert ordinal_model(rows, level=0.95, scale=(1, 10)) is None
    assert ordinal_model(rows, level=0.95, scale=(1, 7)) == ordinal_model(rows, level=0.95)


def test_more_participants_and_items_than_fit_are_refused_and_their_cost_is_bounded():
    tasks = [
        study_task(f"P-{number % 900}", (bot,), {"quality": number % 5}, item={"id": f"item-{number // 2 % 901}"})
        for number in range(3000)
        for bot in "ab"
    ]
    assert "too many participants and items" in ordinal_model(rows_of(tasks), level=0.95).why
    assert ordinal_cost(tasks) == ordinal_cost(tasks * 2) == 10_000 + 0.00015 * 20e9
    few = tasks[:100]
    assert "of 1,000 operations" in ordinal_model(rows_of(few), level=0.95, most=1_000).why
    assert ordinal_cost(few) == pytest.approx(10_000 + 0.00015 * cumulative_logit_cost(100, [50, 25], 7, 2))


def test_one_bot_has_thresholds_and_no_comparison():
    model = ordinal_model(rows_of(judged(8, bots="a")), level=0.95)
    assert (model.why, model.bots, model.differences) == (None, (), ())
    assert len(model.thresholds) == len(model.levels) - 1


def test_the_report_and_its_page_have_the_model():
    report = study_report(judged(12, bots="abc"), FORM)
    ratings = report["analyses"]["kept"]["ratings"]["quality"]
    assert [bot["first"] for bot in ratings["ordinal"]["bots"]] == ["c", "b", "a"]
    page = study_markdown(report)
    assert "quality: ordinal model" in page
    assert "| c − mean of all |" in page
    assert "| c − a |" in page
    for analysis in report["analyses"].values():
        del analysis["ratings"]["quality"]["ordinal"]  # as reports were that were made before
    assert "ordinal model" not in study_markdown(report)
