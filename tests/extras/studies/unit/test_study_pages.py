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
    study_summary,
    write_study_report,
)

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
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in rows if "Wilson, halved" in line or "halved" in line}
    assert len(widths) == 1
    assert "no chain of wins" in page


def test_the_summary_tells_those_left_out_by_hand_from_those_of_the_rules():
    same = [study_task("P-8", ("plain",), {"quality": 4}) for _ in range(5)]  # the rule of the form
    hand = study_task("P-9", ("plain",), {"quality": 6}, excluded="it was us")
    by_rule, by_hand, both = (
        study_summary(study_report([*tasks(), *more], FORM)) for more in (same, [hand], [*same, hand])
    )
    assert ["by the rules" in summary for summary in (by_rule, by_hand, both)] == [True, False, False]
    assert "1 of them by hand" not in by_rule
    assert "1 participants left out, 1 of them by hand" in by_hand
    assert "2 participants left out, 1 of them by hand" in both


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
