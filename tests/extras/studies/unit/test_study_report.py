"""The figures of a report: with and without exclusions, without replies that name a bot, without the pilot."""

from dataclasses import replace

import numpy as np
import pytest
from refusals import refusing
from study_tasks import protocol, study_task

from refaug.core.errors import BadInput
from refaug.extras.studies.report.numbers import MEAN_OF_ALL, StudyAnalysis, report_cost, study_report

FORM = protocol("quality", "fluency", exclude={"failed_attention": 1}, analysis={"draws": 100, "seed": 3})


def chats(seed=0):
    """Return chats of eight people with two bots; one person fails the check of attention and rates upside down."""
    rng = np.random.default_rng(seed)
    tasks = []
    for person in range(8):
        careless = person == 7
        for bot, level in (("a", 5), ("b", 3)):
            quality = int(np.clip((8 - level if careless else level) + rng.integers(-1, 2), 1, 7))
            tasks.append(
                study_task(
                    f"P-{person}",
                    (bot,),
                    {"quality": quality, "fluency": 4, "attention": not careless},
                    turns=["hello", "hi"],
                )
            )
    return tasks


def means(report, analysis="kept", question="quality"):
    return {figure["bot"]: figure["mean"] for figure in report["analyses"][analysis]["ratings"][question]["means"]}


def test_exclusions_change_the_figures_and_stand_beside_those_of_all():
    report = study_report(chats(), FORM)
    assert report["exclusions"]["excluded"] == 1
    assert report["exclusions"]["reasons"] == {
        "P-7": [{"rule": "failed_attention", "detail": "2 of 2 attention checks failed"}]
    }
    assert (report["analyses"]["kept"]["participants"], report["analyses"]["all"]["participants"]) == (7, 8)
    kept, everyone = means(report), means(report, "all")
    assert kept["a"] - kept["b"] > everyone["a"] - everyone["b"]
    assert report["settings"]["draws"] == 100
    assert "unnamed" not in report["analyses"]


def test_the_order_of_tasks_changes_nothing():
    tasks = chats()
    assert study_report(tasks[::-1], FORM) == study_report(tasks, FORM)


def test_the_mean_of_all_questions_is_reported_where_they_share_a_scale():
    report = study_report(chats(), FORM)
    quality, fluency, together = (means(report, question=name) for name in ("quality", "fluency", MEAN_OF_ALL))
    assert together == {bot: pytest.approx((quality[bot] + fluency[bot]) / 2) for bot in quality}


def test_reversed_questions_are_turned():
    form = protocol({"id": "robotic", "text": "r", "type": "likert", "least": 1, "most": 7, "reverse": True})
    report = study_report([study_task("P-1", ("a",), {"robotic": 2})], form)
    assert means(report, question="robotic") == {"a": 6}


def test_checks_are_no_part_of_the_means():
    tasks = [*chats(), study_task("P-0", ("worse",), {"quality": 1, "fluency": 1}, check="degraded")]
    report = study_report(tasks, FORM)
    assert set(means(report)) == {"a", "b"}
    assert report["checks"]["degraded"] == {"quality": 1, "fluency": 1}
    assert report["checks"]["attention"] == {"asked": 16, "passed": 14}


def test_replies_that_name_their_bot_are_counted_and_left_out_beside():
    named = study_task("P-0", ("a",), {"quality": 1, "fluency": 1})
    named = study_task(
        "P-0",
        ("a",),
        {"quality": 1, "fluency": 1},
        sides=[{"side": "one", "turns": [{"n": 1, "role": "bot", "text": "I am a", "names_bot": True}]}],
    )
    report = study_report([*chats(), named], FORM)
    assert report["counts"]["names_bot"] == 1
    assert means(report)["a"] < means(report, "unnamed")["a"]


def test_the_pilot_counts_only_when_asked_for():
    pilot = [study_task("P-9", ("a",), {"quality": 7, "fluency": 7}, pilot=True)]
    report = study_report([*chats(), *pilot], FORM)
    assert report["counts"]["pilot_left_out"] == 1
    assert report["counts"]["participants"] == 8
    assert (
        study_report([*chats(), *pilot], FORM, StudyAnalysis(with_pilot=True, draws=10))["counts"]["participants"] == 9
    )
    with refusing(BadInput):
        study_report(pilot, FORM)


def test_votes_on_replies_are_counted_by_bot():
    def turn(n, vote):
        return {"n": n, "role": "bot", "text": "hi", "vote": vote}

    task = study_task(
        "P-1", ("a",), {"quality": 4}, sides=[{"side": "one", "turns": [turn(1, 1), turn(2, -1), turn(3, 1)]}]
    )
    votes = study_report([task], FORM)["analyses"]["kept"]["votes"]
    assert (votes["a"]["replies"], votes["a"]["up"], votes["a"]["down"]) == (3, 2, 1)
    assert votes["a"]["share_up"]["value"] == 2 / 3
    assert (votes["a"]["participants"], votes["a"]["share_up"]["low"]) == (1, None)  # of one person
    six = [replace(task, participant=f"P-{n}", task=f"v{n}") for n in range(6)]
    votes = study_report(six, FORM)["analyses"]["kept"]["votes"]["a"]
    assert votes["participants"] == 6
    assert 0 < votes["share_up"]["low"] < 2 / 3 < votes["share_up"]["high"] < 1


def test_a_missing_interval_says_why():
    few = study_report(chats()[:6], FORM)["analyses"]["all"]["ratings"]
    assert [figure["why"] for figure in few["quality"]["means"]] == ["few", "few"]
    assert few["quality"]["factors"][0]["p"] is None  # of three people
    enough = study_report(chats(), FORM)["analyses"]["all"]["ratings"]
    assert [figure["why"] for figure in enough["quality"]["means"]] == [None, None]
    assert 0 < enough["quality"]["factors"][0]["p"] < 0.2
    assert [figure["why"] for figure in enough["fluency"]["means"]] == ["same", "same"]
    assert enough["fluency"]["differences"][0]["why"] == "same"


def test_choices_have_pairs_and_strengths():
    form = protocol({"id": "better", "text": "b", "type": "pair"}, analysis={"draws": 50, "seed": 1})
    tasks = [study_task(f"P-{k}", ("a", "b"), {"better": "left" if k % 3 else "right"}) for k in range(9)]
    choices = study_report(tasks, form)["analyses"]["all"]["choices"]["better"]
    assert (choices["pairs"][0]["outcome"]["wins"], choices["pairs"][0]["outcome"]["losses"]) == (6, 3)
    assert choices["bradley_terry"]["half"]["bots"][0]["bot"] == "a"
    assert choices["bradley_terry"]["davidson"] is None


def test_without_a_protocol_questions_are_those_that_were_answered():
    report = study_report(chats(), None, StudyAnalysis(draws=10))
    assert set(report["analyses"]["all"]["ratings"]) == {"quality", "fluency", MEAN_OF_ALL}
    assert report["exclusions"]["excluded"] == 0
    assert report["exclusions"]["has_protocol"] is False


def test_an_empty_study_and_two_studies_at_once_are_refused():
    with refusing(BadInput):
        study_report([], FORM)
    with refusing(BadInput):
        study_report([study_task(), study_task(study="t")], FORM)


def test_choices_cost_their_part_in_each_draw_of_strengths_and_end_with_the_client():
    asked = protocol({"id": "better", "text": "?", "type": "pair"}, kind="chat-pair")
    tasks = [study_task(f"P-{n}", ("a", "b"), {"better": "left"}, turns=["hi", "ho"]) for n in range(8)]
    of_draws = report_cost(tasks, asked, 1_000) - report_cost(tasks, asked, 0)
    other = protocol({"id": "better", "text": "?", "type": "text"}, kind="chat-pair")
    of_answers = report_cost(tasks, other, 1_000) - report_cost(tasks, other, 0)
    assert of_draws - of_answers == pytest.approx(4 * 8 * 1_000 * (0.9 + 0.0035 * 4))
    looks = []
    study_report(tasks, asked, StudyAnalysis(draws=5), lambda: looks.append(1))
    assert len(looks) == 1 + 1 + 28  # before the question, its draws, and each pair of participants
