"""Responses as operators list them: scores of each question, what is conspicuous, filters and orders."""

from __future__ import annotations

from typing import Any

from study_tasks import protocol, study_task

from refaug.extras.studies.exclusions import exclusions
from refaug.extras.studies.figures.responses import ResponseOrder, ResponseQuery, StudyResponses, study_responses
from refaug.extras.studies.questions import protocol_questions
from refaug.extras.studies.records import StudyTask

FORM: dict[str, Any] = protocol(
    "quality",
    {"id": "dull", "text": "Dull?", "type": "likert", "least": 1, "most": 5, "reverse": True},
    {"id": "better", "text": "Which?", "type": "pair"},
    {"id": "why", "text": "Why?", "type": "text"},
    exclude={"failed_attention": 1},
)


def responses_of(*tasks: StudyTask) -> StudyResponses:
    questions = protocol_questions(FORM, ())
    return study_responses(tasks, exclusions(tasks, FORM["exclude"], questions), questions, {"why"})


def found(responses: StudyResponses, **query: Any) -> list[str]:
    return [response.participant for response in ResponseQuery(**query).of(responses.responses)]


def test_scores_are_turned_and_meant_over_sides_and_a_choice_names_the_bot() -> None:
    answers = {"left/quality": 6, "right/quality": 3, "left/dull": 1, "better": "right", "why": " It knew. "}
    (response,) = responses_of(study_task("P-1", ("ann", "bo"), answers)).responses
    assert response.scores == {"quality": 4.5, "dull": 5.0}
    assert (response.chosen, response.bots, response.comment) == ({"better": "bo"}, ("ann", "bo"), "It knew.")
    (tied,) = responses_of(study_task("P-1", ("ann", "bo"), {"better": "tie"})).responses
    assert tied.chosen == {"better": "tie"}


def test_flags_are_of_the_task_and_of_the_rules_that_its_participant_breaks() -> None:
    listed = responses_of(
        study_task("P-1", answers={"quality": 4, "attention": False}),
        study_task("P-1", answers={"quality": 5}),
        study_task("P-2", answers={"quality": 4, "attention": True, "why": "Because."}),
        study_task("P-3", state="skipped", skip_reason="too long"),
        study_task("P-4", answers={"quality": 1}, excluded="it was us"),
    )
    flags = [[broken.rule for broken in response.flags] for response in listed.responses]
    assert flags == [
        ["wrong_attention", "failed_attention"],
        ["failed_attention"],
        ["commented"],
        ["skipped"],
        ["by_hand"],
    ]
    assert listed.responses[3].flags[0].detail == "too long"
    assert set(listed.broken) == {"P-1", "P-4"}
    assert found(listed, flag="failed_attention") == ["P-1", "P-1"]
    assert found(listed, flag="any") == ["P-1", "P-1", "P-3", "P-4"]
    assert found(listed, flag="none") == found(listed, flag="commented") == ["P-2"]


def test_one_answer_everywhere_needs_five_answers() -> None:
    names = [f"left/{name}" for name in ("quality", "dull")] + [f"right/{name}" for name in ("quality", "dull")]
    four = dict.fromkeys(names, 3)
    assert responses_of(study_task("P-1", ("ann", "bo"), four)).responses[0].flags == ()
    (response,) = responses_of(study_task("P-1", ("ann", "bo"), {**four, "quality": 3})).responses
    assert [(broken.rule, broken.detail) for broken in response.flags] == [("same_answer", "3 in all 5 answers")]
    (response,) = responses_of(study_task("P-1", ("ann", "bo"), {**four, "quality": 4})).responses
    assert response.flags == ()


def test_they_are_filtered_and_sorted_and_those_without_the_figure_come_last() -> None:
    listed = responses_of(
        study_task("P-1", ("ann",), {"quality": 2}, seconds=9.0, ended="2026-11-01T10:00:00.000Z"),
        study_task("P-2", ("bo",), {"quality": 7}, seconds=None, ended="2026-11-03T10:00:00.000Z"),
        study_task("P-3", ("bo",), {}, seconds=3.0, ended="2026-11-02T10:00:00.000Z"),
    )
    assert found(listed) == ["P-2", "P-3", "P-1"]
    assert found(listed, is_descending=False) == ["P-1", "P-3", "P-2"]
    assert found(listed, order=ResponseOrder.SCORE, question="quality") == ["P-2", "P-1", "P-3"]
    assert found(listed, order=ResponseOrder.SECONDS, is_descending=False) == ["P-3", "P-1", "P-2"]
    assert found(listed, bot="bo") == ["P-2", "P-3"]
    assert found(listed, participant="P-1") == ["P-1"]
    assert found(listed, question="quality", low=2, high=6.5) == ["P-1"]
