"""What participants disagree about most: things that several of them judged, with the widest answers first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refaug.evaluation.studies.figures.agreement import AgreementFigure, choice_agreement, rating_agreement
from refaug.evaluation.studies.figures.means import mean_rows
from refaug.evaluation.studies.questions import (
    AskedQuestion,
    ChoiceRow,
    choice_rows,
    main_tasks,
    protocol_questions,
    rating_rows,
)
from refaug.evaluation.studies.records import StudyTask

_DIGITS: Final = 9  # so that equal ranges of a scale are equal
_WIDEST_CHOICE: Final = 2  # from the left side to the right one


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One thing with the answers to one question; `spread` is their range as a share of the scale."""

    item: str
    question: str
    answers: tuple[tuple[str, float | str], ...]  # by participant
    spread: float


def running_agreement(tasks: Iterable[StudyTask], protocol: Mapping[str, Any]) -> list[AgreementFigure]:
    """Return how far participants agree so far, by question; without the checks."""
    counted = main_tasks(tasks)
    questions = protocol_questions(protocol, counted)
    figures = [
        rating_agreement(question, rows) for question, rows in mean_rows(list(rating_rows(counted, questions))).items()
    ]
    for question, rows in _by_question(choice_rows(counted, questions)).items():
        figures.append(choice_agreement(question, rows))
    return figures


def disagreements(tasks: Iterable[StudyTask], protocol: Mapping[str, Any], most: int) -> list[Disagreement]:
    """Return the things with the widest answers; equal ones by name."""
    counted = [task for task in main_tasks(tasks) if _unit(task) is not None]
    questions = protocol_questions(protocol, counted)
    scales = {question.id: question for question in questions}
    answers: dict[tuple[str, str], dict[str, tuple[float, float | str]]] = {}
    for row in rating_rows(counted, questions):
        shown = scales[row.question].turned(row.number)  # as it was given
        _own(answers, row.task, row.question)[row.participant] = (row.number / _width(scales[row.question]), shown)
    for choice in choice_rows(counted, questions):
        outcome = choice.outcome if choice.left < choice.right else -choice.outcome
        preferred = {1: min(choice.left, choice.right), -1: max(choice.left, choice.right), 0: "tie"}[outcome]
        _own(answers, choice.task, choice.question)[choice.participant] = (outcome / _WIDEST_CHOICE, preferred)
    listed = [
        Disagreement(
            item=item,
            question=question,
            answers=tuple((person, shown) for person, (_, shown) in sorted(own.items())),
            spread=round(max(at for at, _ in own.values()) - min(at for at, _ in own.values()), _DIGITS),
        )
        for (item, question), own in answers.items()
        if len(own) > 1
    ]
    apart = [entry for entry in listed if entry.spread > 0]
    return sorted(apart, key=lambda entry: (-entry.spread, entry.item, entry.question))[:most]


def _unit(task: StudyTask) -> str | None:
    shown = task.item or {}
    name = shown.get("unit", shown.get("id"))
    return None if name is None else str(name)


def _own(
    answers: dict[tuple[str, str], dict[str, tuple[float, float | str]]], task: StudyTask, question: str
) -> dict[str, tuple[float, float | str]]:
    return answers.setdefault((str(_unit(task)), question), {})


def _width(question: AskedQuestion) -> float:
    if question.least is None or question.most is None:
        return 1.0
    return question.most - question.least


def _by_question(rows: Iterable[ChoiceRow]) -> dict[str, Sequence[ChoiceRow]]:
    listed: dict[str, list[ChoiceRow]] = {}
    for row in rows:
        listed.setdefault(row.question, []).append(row)
    return dict(listed)
