"""The mixed model of a study's ratings: what is taken from its tasks, and what is left out when little is known."""

import numpy as np
import pytest
from study_tasks import protocol, study_task

from refaug.extras.studies.figures.mixed_model import mixed_model, model_cost
from refaug.extras.studies.questions import protocol_questions, rating_rows
from refaug.extras.studies.report.numbers import study_report
from refaug.extras.studies.report.pages import study_markdown

FORM = protocol("quality", analysis={"draws": 100})


def rows_of(tasks):
    return list(rating_rows(tasks, protocol_questions(FORM, tasks)))


def chats(people, *, strict=0, seed=1, **fields):
    """Return chats of people with two bots, `a` a point better; the first so many people, who are strict, rate a more.

    A strict person gives three points less.
    """
    random = np.random.default_rng(seed)
    tasks = []
    for person in range(people):
        bots = "aaab" if person < strict else "ab"
        tasks += [
            study_task(
                f"P-{person}",
                (bot,),
                {"quality": 5 + (bot == "a") - 3 * (person < strict) + round(random.normal(scale=0.6), 2)},
                **fields,
            )
            for bot in bots
        ]
    return tasks


def test_bots_that_strict_people_rated_are_not_taken_for_worse():
    rows = rows_of(chats(40, strict=20))
    plain = {bot: np.mean([row.number for row in rows if row.bot == bot]) for bot in "ab"}
    model = mixed_model(rows, level=0.95)
    (difference,) = model.differences
    assert plain["a"] - plain["b"] < 0.6
    assert (difference.first, difference.second) == ("a", "b")
    assert difference.low < 1 < difference.high
    assert difference.p < 0.001
    assert difference.p_holm == difference.p
    people, residual = model.variances
    assert (people.of, people.levels, residual.of, residual.levels) == ("participants", 40, "residual", 120)
    assert people.variance == pytest.approx(2.3, abs=0.3)  # of people 3 points apart, half of them each: 2.25
    assert residual.variance == pytest.approx(0.36, abs=0.15)
    assert people.share == pytest.approx(people.variance / (people.variance + residual.variance))


def test_items_that_several_judge_have_a_variance_of_their_own():
    random = np.random.default_rng(2)
    hard = random.normal(size=12)
    tasks = [
        study_task(
            f"P-{person}",
            (bot,),
            {"quality": 4 + hard[item] + random.normal(scale=0.5)},
            item={"id": f"item-{item}", "unit": f"item-{item}/{bot}"},
        )
        for person in range(8)
        for item in range(12)
        for bot in "ab"
        if (person + item) % 3
    ]
    model = mixed_model(rows_of(tasks), level=0.95)
    assert [(share.of, share.levels) for share in model.variances] == [
        ("participants", 8),
        ("items", 12),
        ("residual", 128),
    ]
    assert model.variances[1].variance == pytest.approx(hard.var(ddof=1), abs=0.25)


def test_fixed_openings_of_chats_are_items():
    def opened(person, number):
        text = ("Hi!", "Hello.", "Hey.")[number]
        turn = {"n": 1, "role": "bot", "text": text}
        rating, sides = 3 + number + (person % 3) / 4 + (person * number % 4) / 5, [{"side": "one", "turns": [turn]}]
        return [study_task(f"P-{person}", (bot,), {"quality": rating + (bot == "a")}, sides=sides) for bot in "ab"]

    rows = rows_of([task for person in range(7) for number in range(3) for task in opened(person, number)])
    fixed = mixed_model(rows, level=0.95, openings=("Hi!", "Hello.", "Hey."))
    assert [share.of for share in fixed.variances] == ["participants", "openings", "residual"]
    assert [share.of for share in mixed_model(rows, level=0.95).variances] == ["participants", "residual"]


def test_five_participants_have_no_interval_and_no_p():
    model = mixed_model(rows_of(chats(5)), level=0.95)
    assert all(mean.low is None and mean.se > 0 for mean in model.means)
    assert (model.differences[0].low, model.differences[0].p, model.differences[0].p_holm) == (None, None, None)
    assert mixed_model(rows_of(chats(6)), level=0.95).differences[0].low is not None


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ([study_task(f"P-{person}", ("a",), {"quality": person % 7 + 1}) for person in range(9)], "no participant has"),
        ([study_task(f"P-{person}", (bot,), {"quality": 4}) for person in range(9) for bot in "ab"], "no residual"),
        ([study_task("P-1", (bot,), {"quality": n}) for n in range(3) for bot in "ab"], "there is one participant"),
        ([study_task(f"P-{bot}", (bot,), {"quality": n}) for n in range(3) for bot in "ab"], "each bot has one"),
    ],
)
def test_a_model_that_cannot_be_fitted_says_why(tasks, why):
    model = mixed_model(rows_of(tasks), level=0.95)
    assert why in model.why
    assert (model.means, model.ratings) == ((), len(tasks))


def test_more_participants_and_items_than_fit_are_refused_and_their_cost_is_bounded():
    tasks = [
        study_task(f"P-{number % 900}", (bot,), {"quality": number % 5}, item={"id": f"item-{number // 2 % 901}"})
        for number in range(3000)
        for bot in "ab"
    ]
    assert "too many participants and items" in mixed_model(rows_of(tasks), level=0.95).why
    assert model_cost(tasks) == model_cost(tasks * 2) == 910_000


def test_the_cost_counts_openings_and_bots():
    def opened(person, number, bot):
        sides = [{"side": "one", "turns": [{"n": 1, "role": "bot", "text": f"Hi {number}!"}]}]
        return study_task(f"P-{person}", (bot,), {"quality": 3}, sides=sides)

    tasks = [opened(person, number, bot) for person in range(50) for number in range(20) for bot in "ab"]
    assert model_cost(tasks, [f"Hi {number}!" for number in range(20)]) == 10_000 + 0.003 * 50 * 22**2
    assert model_cost(tasks) == 10_000 + 0.003 * 50 * 3**2


@pytest.mark.parametrize("people", [6, 7, 10])
@pytest.mark.parametrize("answers", [{"quality": 4, "fluency": 5, "fun": 4}, {"a": 5, "b": 4}])
def test_a_report_of_people_who_agree_in_all_is_whole(people, answers):
    is_by_bot = "a" in answers
    form = protocol("quality", analysis={"draws": 100}) if is_by_bot else protocol(*answers, analysis={"draws": 100})
    tasks = [
        study_task(f"P-{person}", (bot,), {"quality": answers[bot]} if is_by_bot else answers)
        for person in range(people)
        for bot in "ab"
    ]
    ratings = study_report(tasks, form)["analyses"]["kept"]["ratings"]
    assert {figures["model"]["why"] for figures in ratings.values()} == {"the ratings leave no residual"}


def test_the_report_and_its_page_have_the_model():
    report = study_report(chats(8), FORM)
    model = report["analyses"]["kept"]["ratings"]["quality"]["model"]
    assert model["why"] is None
    assert [mean["bot"] for mean in model["means"]] == ["a", "b"]
    page = study_markdown(report)
    assert "quality: model" in page
    assert "Variances: participants" in page
    del report["analyses"]["kept"]["ratings"]["quality"]["model"]  # as reports were that were made before
    assert study_markdown(report).count("quality: model") == 1
