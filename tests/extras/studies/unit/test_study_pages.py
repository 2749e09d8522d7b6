"""The page and the Markdown of a report: every figure, escaped names, and metrics beside people."""

import re

import numpy as np
import orjson
import pytest
from refusals import refusing
from study_tasks import protocol, study_task

from refaug.core.errors import BadInput
from refaug.core.progress import Silent
from refaug.extras.conversations.judged import TurnJudges
from refaug.extras.studies.questions import protocol_questions
from refaug.extras.studies.report.beside import ScoredHybrid, dialogues_of, metrics_beside
from refaug.extras.studies.report.numbers import study_report
from refaug.extras.studies.report.pages import (
    stored_study_pages,
    study_markdown,
    study_page,
    study_sections,
    study_summary,
    write_study_report,
)
from refaug.extras.studies.report.results import NOTHING

FORM = protocol(
    "quality",
    {"id": "better", "text": "b", "type": "pair"},
    exclude={"same_answer_everywhere": True},
    analysis={"draws": 50, "seed": 1},
)
HOSTILE = "<script>alert(1)</script>|`x`"


def tasks():
    listed = []
    for person in range(6):
        for bot, number in ((HOSTILE, 5), ("plain", 3)):
            listed.append(
                study_task(f"P-{person}", (bot,), {"quality": number + person % 2}, turns=["hello", "hi you"])
            )
        listed.append(study_task(f"P-{person}", (HOSTILE, "plain"), {"better": "left" if person else "tie"}))
    return listed


def test_page_and_markdown_show_every_mean_and_escape_names(tmp_path):
    report = study_report(tasks(), FORM)
    page, markdown = study_page(report), study_markdown(report)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in markdown
    for figure in report["analyses"]["kept"]["ratings"]["quality"]["means"]:
        assert f"{figure['mean']:.3f}" in page
        assert f"{figure['mean']:.3f}" in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows if "Wilson" in line and "p (Holm)" in line}) == 2
    assert "no chain of wins" in page


def test_the_summary_tells_those_left_out_by_hand_from_those_of_the_rules():
    same = [study_task("P-8", ("plain",), {"quality": 4}) for _ in range(5)]  # the rule of the form
    hand = study_task("P-9", ("plain",), {"quality": 6}, excluded="it was us")
    by_rule, by_hand, both = (
        study_summary(study_report([*tasks(), *more], FORM)) for more in (same, [hand], [*same, hand])
    )
    assert ["by the rules" in summary for summary in (by_rule, by_hand, both)] == [True, False, False]
    assert "1 of them by hand" not in by_rule
    assert "1 participant left out, 1 of them by hand" in by_hand
    assert "2 participants left out, 1 of them by hand" in both


def rated(people, of_b=3):
    """Return chats of some people with a and b, and one more person who fails the check and says the opposite."""
    listed = [
        study_task(f"P-{person}", (bot,), {"quality": min(7, number + person % 3), "attention": True}, seconds=60.0)
        for person in range(people)
        for bot, number in (("a", 4), ("b", of_b))
    ]
    return [*listed, study_task("Q-0", ("a",), {"quality": 1, "attention": False}, seconds=600.0)]


def test_few_people_are_told_in_words_and_no_column_is_all_dashes():
    form = protocol("quality", exclude={"failed_attention": 1}, analysis={"draws": 50})
    page = study_page(study_report(rated(3), form))
    assert "Too few: 3 participants counted. Below 10 the figures show a direction at best" in page
    assert "No interval and no p stand where fewer than 6 people gave the answers" in page
    assert page.count("<td>–</td>") == page.count('<td class="number">–</td>') == 0
    assert "Too few" not in study_page(study_report(rated(11), form))
    alike = study_page(study_report(rated(11, of_b=1)[:-1], form))  # everybody sees the same difference
    assert "No interval and no p stand where all said the same" in alike
    assert "fewer than 6 people" not in alike


def test_results_with_and_without_exclusions_stand_in_one_plot_and_one_table():
    form = protocol(
        {"id": "quality", "text": "How good was it?", "type": "likert", "least": 1, "most": 7},
        exclude={"failed_attention": 1},
        analysis={"draws": 50},
    )
    report = study_report(rated(8), form)
    section = study_sections(report)[0]
    assert (section.title, section.text) == ("quality", ["How good was it?"])
    means, differences = section.forests
    assert [row.label for row in means.rows] == ["a", "b"]
    assert (means.series, [len(row.marks) for row in means.rows]) == (["without those left out", "everybody"], [2, 2])
    assert [text for _, text in means.ticks] == ["1", "2", "3", "4", "5", "6", "7"]
    assert (means.zero, [row.label for row in differences.rows]) == (None, ["a − b"])
    assert 0 < differences.zero < differences.rows[0].marks[0].at
    table = section.tables[0]
    assert (table.columns[-1], table.rows[0][1]) == ("everybody: mean", "8")
    assert table.rows[0][-1].startswith("4.444 [")
    rules = next(table for table in study_sections(report)[1].tables if table.title == "Rules of exclusion")
    assert rules.rows[0] == ("failed checks of attention: 1 or more", "9", "1")


def test_dropout_and_minutes_are_by_step_and_participant():
    left = [study_task(f"L-{n}", ("a",), {}, state="expired", seconds=None) for n in range(2)]
    report = study_report([*rated(8), *left], protocol("quality", analysis={"draws": 10}))
    assert report["steps"] == [
        {"task": 1, "begun": 11, "done": 9, "skipped": 0, "expired": 2},
        {"task": 2, "begun": 8, "done": 8, "skipped": 0, "expired": 0},
    ]
    assert report["minutes"]["a_task"] == {"n": 17, "lower": 1.0, "median": 1.0, "upper": 1.0}
    assert report["minutes"]["a_participant"] == {"n": 9, "lower": 2.0, "median": 2.0, "upper": 2.0}
    page = study_page(report)
    assert "left without a word" in page
    assert "1.0 (1.0 to 1.0)" in page


def test_a_study_without_an_answer_is_a_sentence():
    report = study_report([study_task("P-1", ("a",), {}, state="skipped", skip_reason="ill")], protocol("quality"))
    first, *_ = study_sections(report)
    assert (first.text, list(first.tables), list(first.forests)) == ([NOTHING], [], [])


def test_the_files_are_made_again_from_the_json(tmp_path):
    report = study_report(tasks(), FORM)
    page, *_ = write_study_report(report, tmp_path / "report")
    stored = orjson.loads((tmp_path / "report" / "report.json").read_bytes())
    assert stored_study_pages(stored, "report.json") == (
        page.read_text(),
        (tmp_path / "report" / "report.md").read_text(),
    )
    del stored["counts"]
    with refusing(BadInput, "report.json"):
        stored_study_pages(stored, "report.json")
    with refusing(BadInput):
        stored_study_pages({"study_report": 7}, "report.json")


def test_what_people_judged_becomes_dialogues_with_turned_ratings():
    form = protocol({"id": "robotic", "text": "r", "type": "likert", "least": 1, "most": 7, "reverse": True})
    chat = study_task("P-1", ("a",), {"robotic": 2}, turns=["hello", "hi"])
    reply = study_task(
        "P-1",
        ("b",),
        {"robotic": 7},
        kind="rate-reply",
        item={"id": "i", "turns": [{"role": "participant", "text": "So?"}], "reply": "Well."},
    )
    first, second = dialogues_of([chat, reply], protocol_questions(form, []))
    assert (first.bot, dict(first.ratings)) == ("a", {"robotic": 6})
    assert [text for _, text in first.turns] == ["hello", "hi"]
    (scored,) = second.replies()
    assert (scored.context, scored.reply) == (("So?",), "Well.")
    assert dict(second.ratings) == {"robotic": 1}


def test_metrics_stand_beside_ratings_and_choices():
    words = {
        "a": "a few words of answer here",
        "b": "some words of it",
        "c": "two words",
        "d": "one",
        "e": "a b c d e f g h",
    }
    listed = [
        study_task(f"P-{person}", (bot,), {"quality": min(7, len(reply.split()))}, turns=["so what now", reply])
        for person in range(3)
        for bot, reply in words.items()
    ]
    pair = study_task("P-9", ("a", "d"), {"better": "left"}, item={"id": "i", "turns": ["so?"], "replies": words})
    questions = protocol_questions(FORM, [])
    hybrid = ScoredHybrid(
        name="hybrid h",
        signature="mh|…",
        scores={
            talk.id: float(len(talk.replies()[0].reply.split())) for talk in dialogues_of([*listed, pair], questions)
        },
    )
    beside = metrics_beside(None, [*listed, pair], questions, None, Silent(), hybrids=[hybrid])
    (figures,) = beside["ratings"]
    ratings = np.array([6, 4, 2, 1, 7])
    assert figures["bots"] == 5
    assert figures["pearson"] == pytest.approx(np.corrcoef(ratings, [6, 4, 2, 1, 8])[0, 1])
    (choice,) = beside["choices"]
    assert (choice["choices"], choice["agreed"]) == (1, 1)
    with refusing(BadInput):
        metrics_beside(None, [study_task()], questions, TurnJudges(metrics=["bleu"], models=None), Silent())
