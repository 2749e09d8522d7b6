"""What operators decided: beside the raters' own figures in reports, in exports with who and when, and read back."""

import csv
import io

import orjson
import pytest
from study_tasks import protocol, study_task

from refaug.core.errors import BadInput
from refaug.extras.studies.exports import ExportFormat, export_study
from refaug.extras.studies.figures.disagreements import require_possible_decision
from refaug.extras.studies.questions import protocol_questions
from refaug.extras.studies.records import read_tasks, task_order, write_tasks
from refaug.extras.studies.report.numbers import study_report
from refaug.extras.studies.report.pages import study_markdown

BETTER = {"id": "better", "text": "b", "type": "pair"}
WORSE = {"id": "worse", "text": "w", "type": "pair", "reverse": True}
AT = "2026-01-02T03:04:05.678Z"


def decided(value, by="chief"):
    return {"value": value, "note": "read it twice", "by": by, "at": AT}


def rated(participant, unit, number, **decisions):
    fields = {"decisions": decisions} if decisions else {}
    return study_task(
        participant, ("a",), {"quality": number}, kind="rate-reply", item={"id": unit, "unit": unit}, **fields
    )


def tasks():
    """Two people on two replies; about the first they disagree, and it was decided."""
    return [
        *(rated(person, "r1", quality, quality=decided(6)) for person, quality in (("P-1", 1), ("P-2", 6))),
        *(rated(person, "r2", quality) for person, quality in (("P-1", 4), ("P-2", 4))),
    ]


def test_the_report_says_both_figures_and_counts_the_decisions():
    report = study_report(tasks(), protocol("quality"))
    means = {name: part["ratings"]["quality"]["means"][0]["mean"] for name, part in report["analyses"].items()}
    assert means == {"kept": 15 / 4, "all": 15 / 4, "decided": (6 + 6 + 4 + 4) / 4}
    assert report["decisions"] == {
        "decisions": 1, "items": 1, "by": {"chief": 1}, "answers": 2, "answers_that_differ": 1,
    }  # fmt: skip
    assert report["analyses"]["decided"]["agreement"] == []
    page = study_markdown(report)
    assert "with what was decided where participants disagreed" in page
    assert "1 on 1 items, by chief 1" in page


def test_a_report_without_decisions_says_nothing_of_them():
    report = study_report([rated("P-1", "r2", 4)], protocol("quality"))
    assert (report["decisions"]["decisions"], set(report["analyses"])) == (0, {"kept", "all"})
    assert "decided" not in study_markdown(report)


@pytest.mark.parametrize(("system", "left", "right", "ties"), [("a", 2, 0, 0), ("b", 0, 2, 0), ("tie", 0, 0, 2)])
def test_a_decision_about_a_pair_names_the_better_system_wherever_it_stood(system, left, right, ties):
    decisions = {"better": decided(system), "worse": decided(system)}
    shown = {"id": "r1", "unit": "r1/a/b"}
    voted = [
        study_task(
            f"P-{n}", bots, {"better": "left", "worse": "left"}, kind="pair-reply", item=shown, decisions=decisions
        )
        for n, bots in enumerate((("a", "b"), ("b", "a")))
    ]
    report = study_report(voted, protocol(BETTER, WORSE))
    for question in ("better", "worse"):
        (own,) = report["analyses"]["kept"]["choices"][question]["pairs"]
        assert [own["outcome"][name] for name in ("wins", "losses", "ties")] == [1, 1, 0]
        (pair,) = report["analyses"]["decided"]["choices"][question]["pairs"]
        assert (pair["first"], pair["second"]) == ("a", "b")
        assert [pair["outcome"][name] for name in ("wins", "losses", "ties")] == [left, right, ties]


def test_decisions_are_exported_with_who_and_when_and_read_back_as_the_same_bytes(tmp_path):
    first = b"".join(export_study(tasks(), protocol("quality"), ExportFormat.JSONL))
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(first)
    read = sorted(read_tasks(path), key=task_order)
    assert orjson.loads(first.splitlines()[0])["decisions"] == {"quality": decided(6)}
    again = io.BytesIO()
    write_tasks(read, again)
    assert again.getvalue() == first == b"".join(export_study(read, protocol("quality"), ExportFormat.JSONL))


def test_csv_has_what_was_decided_behind_the_published_columns():
    rated_dialogue = {"kind": "rate-dialogue", "turns": ("hi", "hello"), "item": {"id": "d", "unit": "d"}}
    chats = [
        study_task("P-1", ("a",), {"quality": 2}, decisions={"quality": decided(5, by="=cmd")}, **rated_dialogue),
        study_task("P-2", ("a",), {"quality": 3}, **{**rated_dialogue, "item": {"id": "e", "unit": "e"}}),
    ]
    text = b"".join(export_study(chats, protocol("quality"), ExportFormat.CSV)).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    names = ("Chat Rating Quality", "Decision quality", "Decision quality by", "Decision quality at")
    assert [[row[name] for name in names] for row in rows] == [["2", "5", "'=cmd", AT], ["3", "", "", ""]]


@pytest.mark.parametrize(
    ("question", "value", "remedy"),
    [("quality", 8, "1 to 7"), ("quality", "good", "1 to 7"), ("better", "c", "a, b, tie"), ("better", 1, "a, b, tie")],
)
def test_a_decision_is_an_answer_that_could_have_been_given(question, value, remedy):
    questions = {entry.id: entry for entry in protocol_questions(protocol("quality", BETTER), ())}
    with pytest.raises(BadInput) as refused:
        require_possible_decision(questions[question], value, ("a", "b"))
    assert remedy in refused.value.remedy
    require_possible_decision(questions["quality"], 7, ("a",))
    require_possible_decision(questions["better"], "tie", ("a", "b"))


@pytest.mark.parametrize(
    ("scope", "systems", "refusal"),
    [("side", "ab", "each bot of a pair"), ("turn", "a", "each turn"), ("side", "a", None), ("task", "ab", None)],
)
def test_one_decision_does_not_stand_for_answers_about_several_bots_or_turns(scope, systems, refusal):
    warmth = {"id": "warmth", "text": "w", "type": "likert", "scope": scope}
    (question,) = protocol_questions(protocol(warmth), ())
    if refusal is None:
        require_possible_decision(question, 4, systems)
        return
    with pytest.raises(BadInput, match=refusal):
        require_possible_decision(question, 4, systems)
