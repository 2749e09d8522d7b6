"""Means, factors, pairs and agreement of studies against independent computations."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats
from study_tasks import protocol, study_task

from refaug.extras.studies.figures.disagreements import (
    agreement_cost,
    choice_agreement,
    disagreements,
    length_difference,
    pair_figures,
    rating_agreement,
    running_agreement,
)
from refaug.extras.studies.figures.means import bot_means, standardised
from refaug.extras.studies.questions import choice_rows, protocol_questions, rating_rows
from refaug.extras.studies.report.numbers import factor_tests

PAIR = {"id": "better", "text": "better", "type": "pair"}


def rows_of(tasks, *questions):
    return list(rating_rows(tasks, protocol_questions(protocol(*questions), tasks)))


def choices_of(tasks):
    return list(choice_rows(tasks, protocol_questions(protocol(PAIR), tasks)))


def clustered_ratings(seed, people=40, each=4, rho=0.5):
    """Return numbers, bots and people: every person rates both bots several times, and has a level of their own."""
    rng = np.random.default_rng(seed)
    level = np.sqrt(rho) * rng.normal(size=people)
    numbers, bots, persons = [], [], []
    for person in range(people):
        for bot, gap in (("a", 0.4), ("b", 0.0)):
            for noise in rng.normal(size=each):
                numbers.append(4 + gap + level[person] + np.sqrt(1 - rho) * noise)
                bots.append(bot)
                persons.append(f"p{person}")
    return numbers, bots, persons


def test_means_have_intervals_over_participants_and_of_student():
    numbers, bots, persons = clustered_ratings(1)
    figures = bot_means(numbers, bots, persons, draws=4000)
    first = figures.means[0]
    own = np.array([number for number, bot in zip(numbers, bots, strict=True) if bot == "a"])
    assert [figure.bot for figure in figures.means] == ["a", "b"]
    assert (first.n, first.participants) == (160, 40)
    assert first.mean == pytest.approx(own.mean())
    expected = stats.t.interval(0.95, 159, own.mean(), stats.sem(own))
    assert (first.t_low, first.t_high) == pytest.approx(expected)
    # over participants: as wide as the interval of their means, which is wider than that of single ratings
    of_people = own.reshape(40, 4).mean(axis=1)
    half = 1.96 * stats.sem(of_people)
    assert (first.low, first.high) == pytest.approx((own.mean() - half, own.mean() + half), abs=0.05)
    assert first.high - first.low > 1.3 * (first.t_high - first.t_low)


def test_unclustered_intervals_draw_single_ratings():
    numbers, bots, persons = clustered_ratings(1)
    figure = bot_means(numbers, bots, persons, draws=4000, clustered=False).means[0]
    assert (figure.low, figure.high) == pytest.approx((figure.t_low, figure.t_high), abs=0.03)


def test_a_difference_of_bots_that_the_same_people_rate_has_a_narrow_interval():
    numbers, bots, persons = clustered_ratings(2)
    (difference,) = bot_means(numbers, bots, persons, draws=4000).differences
    table = np.array(numbers).reshape(40, 2, 4).mean(axis=2)
    test = stats.ttest_rel(table[:, 0], table[:, 1])
    assert difference.difference == pytest.approx((table[:, 0] - table[:, 1]).mean())
    interval = test.confidence_interval()
    assert (difference.low, difference.high) == pytest.approx((interval.low, interval.high), abs=0.04)
    assert difference.p == pytest.approx(test.pvalue, abs=0.02)
    assert difference.p_holm == difference.p  # one pair


def test_no_order_of_ratings_changes_a_mean_or_an_interval():
    numbers, bots, persons = clustered_ratings(3)
    order = np.random.default_rng(0).permutation(len(numbers))
    shuffled = [[column[place] for place in order] for column in (numbers, bots, persons)]
    first, second = bot_means(numbers, bots, persons, draws=50), bot_means(*shuffled, draws=50)
    for figure, other in zip(first.means, second.means, strict=True):
        assert list(asdict(figure).values())[1:] == pytest.approx(list(asdict(other).values())[1:], abs=1e-12)


def test_one_participant_gives_no_interval_over_participants():
    figures = bot_means([1.0, 2.0, 5.0], ["a", "a", "b"], ["p", "p", "p"])
    assert [figure.low for figure in figures.means] == [None, None]
    assert figures.means[0].sd is None
    assert figures.differences[0].p is None


@pytest.mark.parametrize("clustered", [True, False])
def test_few_participants_give_no_interval_and_no_p(clustered):
    def figures(people, of_c=0):
        """Return the figures of people who all rate a and b twice, and of some who rate c eight times."""
        rows = [("a", n, 5 + n % 2 + time) for n in range(people) for time in (0, 1)]
        rows += [("b", n, 4 + n % 3 / 2 - time) for n in range(people) for time in (0, 1)]
        rows += [("c", n, 1 + time % 2) for n in range(of_c) for time in range(8)]
        bots, persons, numbers = zip(*rows, strict=True)
        return bot_means(numbers, bots, [f"P-{n}" for n in persons], clustered=clustered)

    for found in (figures(3), figures(5)):  # whichever is drawn: ten ratings of five people are no ten people
        assert [(mean.low, mean.high) for mean in found.means] == [(None, None)] * 2
        assert [(each.low, each.high, each.p, each.p_holm) for each in found.differences] == [(None,) * 4]
        assert all(mean.t_low < mean.mean < mean.t_high for mean in found.means)
    enough = figures(6)
    assert all(mean.low < mean.mean < mean.high for mean in enough.means)
    assert enough.differences[0].low < enough.differences[0].difference < enough.differences[0].high
    assert enough.differences[0].p < 0.05
    mixed = figures(6, of_c=5)  # the number of each bot counts, and of both in a difference
    assert [(mean.bot, mean.low is None) for mean in mixed.means] == [("a", False), ("b", False), ("c", True)]
    assert {(each.first + each.second, each.low is None, each.p is None) for each in mixed.differences} == {
        ("ab", False, False),
        ("ac", True, True),
        ("bc", True, True),
    }


def test_draws_that_are_all_the_same_give_no_interval_and_no_p():
    people = [f"P-{n}" for n in range(6)] * 2
    bots = ["a"] * 6 + ["b"] * 6
    for clustered in (True, False):
        constant = bot_means([5.0] * 6 + [4.0] * 6, bots, people, clustered=clustered)
        assert [(each.low, each.high, each.t_low, each.t_high) for each in constant.means] == [(None,) * 4] * 2
        (gap,) = constant.differences
        assert (gap.difference, gap.low, gap.high, gap.p, gap.p_holm) == (1.0, None, None, None, None)
    levels = [1.1, 2.3, 3.7, 4.2, 5.9, 6.3]
    alike = bot_means([level + 1 for level in levels] + levels, bots, people)  # everybody sees the same difference
    assert all(each.low < each.mean < each.high for each in alike.means)
    (gap,) = alike.differences
    assert (gap.low, gap.high, gap.p) == (None, None, None)
    both = bot_means([4.0] * 6 + [6.0] * 6, ["a"] * 12, people).means[0]  # everybody has the same mean
    assert (both.low, both.high) == (None, None)
    assert both.t_low < 5 < both.t_high


def test_standard_ratings_are_of_participants_with_enough_that_differ():
    tasks = [study_task("P-1", answers={"quality": number}) for number in (2, 4, 6)]
    tasks += [study_task("P-2", answers={"quality": 5}) for _ in range(4)]
    tasks += [study_task("P-3", answers={"quality": number}) for number in (1, 7)]
    scaled = standardised(rows_of(tasks, "quality"), 3)
    assert [(row.participant, number) for row, number in scaled] == [("P-1", -1.0), ("P-1", 0.0), ("P-1", 1.0)]
    assert standardised(rows_of(tasks, "quality"), 10) == []


def test_levels_of_participants_make_no_factor():
    # who likes everything rates bot a more often: its mean is higher, and no participant sees a difference
    tasks = []
    for person in range(20):
        level = 6 if person % 2 else 2
        for number in range(4):
            bot = "a" if number < (3 if level == 6 else 1) else "b"
            tasks.append(study_task(f"P-{person}", (bot,), {"quality": level + (number + person) % 2}))
    (test,) = factor_tests(rows_of(tasks, "quality"), {}, draws=500, seed=1)
    assert test.participants == 20
    assert test.p > 0.2


def test_a_factor_is_found_across_the_bots_that_share_it():
    rng = np.random.default_rng(0)
    factors = {"a1": {"data": "x"}, "a2": {"data": "x"}, "b1": {"data": "y"}}
    tasks = [
        study_task(f"P-{person}", (bot,), {"quality": int(np.clip(round(3 + 2 * (bot == "b1") + rng.normal()), 1, 7))})
        for person in range(15)
        for bot in factors
    ]
    of_bots, of_data = factor_tests(rows_of(tasks, "quality"), factors, draws=200, seed=1)
    assert (of_bots.factor, of_data.factor) == ("bot", "data")
    assert of_data.levels["y"] > 1 > of_data.levels["x"]
    assert of_data.p == pytest.approx(1 / 201)


def test_bots_that_no_participant_compares_have_no_test():
    tasks = [study_task("P-1", ("a",), {"quality": 3}), study_task("P-2", ("b",), {"quality": 5})]
    (test,) = factor_tests(rows_of(tasks, "quality"), {}, draws=50, seed=1)
    assert (test.participants, test.p) == (0, None)


def test_pairs_are_counted_whatever_the_side():
    sides = [("a", "b", "left"), ("b", "a", "right"), ("a", "b", "tie"), ("b", "a", "left"), ("b", "a", "right")]
    tasks = [study_task(f"P-{k}", (first, second), {"better": won}) for k, (first, second, won) in enumerate(sides)]
    figures = pair_figures(choices_of(tasks), draws=20, seed=1, level=0.95)
    (pair,) = figures.pairs
    assert (pair.first, pair.second) == ("a", "b")
    assert (pair.outcome.wins, pair.outcome.losses, pair.outcome.ties) == (3, 1, 1)
    assert figures.is_left.value == 0.5
    assert [bot.bot for bot in figures.strengths.bots] == ["a", "b"]
    assert figures.strengths.bots[0].strength == pytest.approx(np.log(3.5 / 1.5) / 2, abs=1e-9)
    assert figures.davidson.tie.value > 0
    assert figures.with_length is None
    assert pair_figures([], draws=20, seed=1, level=0.95) is None


@pytest.mark.parametrize(("people", "is_shown"), [(5, False), (6, True)])
def test_pairs_that_few_people_compared_have_counts_alone(people, is_shown):
    tasks = [
        study_task(f"P-{k % people}", ("a", "b"), {"better": won})
        for k, won in enumerate(["left"] * 9 + ["right"] * 2 + ["tie"])
    ]
    tasks += [study_task(f"P-{k}", ("b", "c"), {"better": "left"}) for k in range(6)]  # more people judged b
    pair, other = pair_figures(choices_of(tasks), draws=20, seed=1, level=0.95).pairs
    assert (pair.outcome.wins, pair.outcome.losses, pair.outcome.ties) == (9, 2, 1)
    assert pair.outcome.decided.value == 9 / 11
    bounds = [end for share in (pair.outcome.decided, pair.outcome.halved) for end in (share.low, share.high)]
    p_values = [pair.outcome.p_dropped, pair.outcome.p_halved, pair.dropped_holm, pair.halved_holm]
    assert [figure is not None for figure in (*bounds, *p_values)] == [is_shown] * 8
    assert other.outcome.p_dropped == 2 / 2**6
    assert other.dropped_holm == pytest.approx((1 + is_shown) * 2 / 2**6)  # over the pairs that have a p


def test_lengths_are_those_of_the_replies():
    pair = study_task("P-1", ("a", "b"), {"better": "left"}, item={"id": "i", "replies": {"a": "x y z", "b": "x"}})
    assert length_difference(pair) == 0.5
    chat = study_task("P-1", ("a", "b"), {"better": "left"}, turns=["hello you", "hi"])
    assert length_difference(chat) == 0.0
    assert length_difference(study_task("P-1", ("a", "b"))) is None


def test_agreement_is_over_items_that_several_people_rate():
    tasks = [
        study_task(f"P-{person}", ("a",), {"quality": number}, kind="rate-reply", item={"id": f"i{place}"})
        for person, numbers in enumerate([[1, 4, 7], [2, 4, 6]])
        for place, number in enumerate(numbers)
    ]
    figure = rating_agreement("quality", rows_of(tasks, "quality"))
    assert (figure.rows_are, figure.rows, figure.participants) == ("items", 3, 2)
    # α of the matrix by hand: squared differences 1, 0, 1 within, against all pairs of the six numbers
    numbers = np.array([1, 4, 7, 2, 4, 6.0])
    expected = np.mean([(x - y) ** 2 for i, x in enumerate(numbers) for j, y in enumerate(numbers) if i != j])
    assert figure.alpha_interval.value == pytest.approx(1 - (2 / 3) / expected)
    assert figure.kappa_mean == pytest.approx(1 - (2 / 3) / (6 + 8 / 3))


def rated_tasks(people, items):
    return [
        study_task(f"P-{person}", ("a",), {"quality": (person * item) % 7}, kind="rate-reply", item={"id": f"i{item}"})
        for person in range(people)
        for item in range(items)
    ]


def test_agreement_costs_answers_pairs_of_participants_and_the_table():
    of_pairs = 10 * (300 + 0.2 * 3)
    assert agreement_cost(rated_tasks(5, 3), protocol("quality")) == 50 * 2 * 15 + of_pairs + 2 * 3 * 5
    many = agreement_cost(rated_tasks(201, 1), protocol("quality"))  # no pairs are compared beyond 200
    assert many == 50 * 2 * 201 + 2 * 201
    few = [study_task(f"P-{n}", answers={"quality": 4} | ({"rare": 4} if n < 5 else {})) for n in range(201)]
    assert agreement_cost(few, protocol("quality", "rare")) == 2 * (50 * 2 * 201 + 2 * 201) + 10 * (300 + 0.2)
    assert agreement_cost([], protocol("quality")) == 0


def test_agreement_on_chats_costs_a_row_of_each_bot_and_on_choices_the_first_pairs_of_participants():
    chats = [study_task(f"P-{person}", (bot,), {"quality": 4}) for person in range(3) for bot in ("a", "b") * 2]
    assert agreement_cost(chats, protocol("quality")) == 50 * 2 * 12 + 3 * (300 + 0.2 * 2) + 2 * 2 * 3
    choices = [study_task(f"P-{person}", ("a", "b"), {"better": "tie"}) for person in range(201)]
    assert agreement_cost(choices, protocol(PAIR)) == 50 * 2 * 201 + 19_900 * (300 + 0.2 * 3) + 2 * 3 * 201


def test_agreement_ends_between_two_pairs_of_participants():
    looks = []

    def check():
        looks.append(len(looks))
        if len(looks) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running_agreement(rated_tasks(5, 3), protocol("quality"), check)
    assert looks == [0, 1, 2, 3]  # before the question, and before each of three pairs


def test_agreement_is_over_bots_where_everyone_rates_other_chats():
    tasks = [
        study_task(f"P-{person}", (bot,), {"quality": number})
        for person, numbers in enumerate([[1, 5], [2, 7]])
        for bot, number in zip("ab", numbers, strict=True)
    ]
    figure = rating_agreement("quality", rows_of(tasks, "quality"))
    assert (figure.rows_are, figure.rows, figure.participants) == ("bots", 2, 2)


def test_choices_that_are_even_are_ambiguous():
    chosen = {"i1": ["left", "left"], "i2": ["left", "right"], "i3": ["tie", "tie"], "i4": ["right", "right"]}
    tasks = [
        study_task(f"P-{person}", ("a", "b"), {"better": answer}, kind="pair-reply", item={"id": item})
        for item, answers in chosen.items()
        for person, answer in enumerate(answers)
    ]
    figure = choice_agreement("better", choices_of(tasks))
    assert (figure.rows_are, figure.rows) == ("items", 4)
    assert figure.ambiguous == 0.5
    # both choose a, a, tie, b; b, b … : 3 of 4 agree, and by chance (2·1 + 1·1 + 1·2) / 16
    assert figure.kappa_median == pytest.approx((3 / 4 - 5 / 16) / (1 - 5 / 16))


def test_disagreements_about_each_of_two_bots_are_its_own():
    shown = {"kind": "pair-dialogue", "item": {"id": "i", "unit": "u"}}
    ratings = {"P-1": (("a", "b"), 7, 1), "P-2": (("b", "a"), 2, 5)}  # of the left and of the right side
    tasks = [
        study_task(person, bots, {"left/quality": left, "right/quality": right}, **shown)
        for person, (bots, left, right) in ratings.items()
    ]
    found = [(entry.bot, entry.answers, entry.spread) for entry in disagreements(tasks, protocol("quality"), 9)]
    assert found == [
        ("a", (("P-1", 7), ("P-2", 5)), pytest.approx(2 / 6)),
        ("b", (("P-1", 1), ("P-2", 2)), pytest.approx(1 / 6)),
    ]
    assert [entry.bot for entry in disagreements(rated_tasks(2, 3), protocol("quality"), 9)] == [None, None]
