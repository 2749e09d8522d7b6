"""What operators decided where participants disagreed: the answers of raters, with these decisions in their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from refaug.core.errors import BadInput
from refaug.evaluation.studies.questions import CHOICES, AnswerType, AskedQuestion, is_number, main_tasks
from refaug.evaluation.studies.records import Answer, StudyTask, TaskSideName

TIE: Final = "tie"


def require_possible_decision(question: AskedQuestion, answer: float | str, systems: Sequence[str]) -> None:
    """Refuse what no participant could have said: a number beyond the scale, a system that was not shown."""
    if question.type is AnswerType.NUMBER:
        least, most = question.least or 0, question.most or 0
        if not is_number(answer) or not least <= answer <= most:
            raise BadInput(
                f"value: {str(answer)[:60]!r} is no answer to {question.id}",
                remedy=f"a number from {least:g} to {most:g}",
            )
    elif question.type is AnswerType.PAIR and answer not in (*systems, TIE):
        names = ", ".join((*systems, TIE))
        raise BadInput(f"value: {str(answer)[:60]!r} is no answer to {question.id}", remedy=f"one of: {names}")


def decided_tasks(tasks: Iterable[StudyTask], questions: Sequence[AskedQuestion]) -> list[StudyTask]:
    """Return the tasks with what was decided in the place of what participants answered."""
    asked_questions = {question.id: question for question in questions}
    return [
        replace(task, answers={**task.answers, **_decided_answers(task, asked_questions)}) if task.decisions else task
        for task in tasks
    ]


def decision_counts(tasks: Iterable[StudyTask], questions: Sequence[AskedQuestion]) -> dict[str, object]:
    """Return how much was decided, by whom, and how many answers of participants are others."""
    asked_questions = {question.id: question for question in questions}
    decided, answers, changed = dict[tuple[str, str], str](), 0, 0
    for task in main_tasks(tasks):
        shown = task.item or {}
        unit = str(shown.get("unit", shown.get("id", task.task)))
        for name, decision in (task.decisions or {}).items():
            decided[unit, name] = decision.by
        for key, answer in _decided_answers(task, asked_questions).items():
            answers += 1
            changed += task.answers[key] != answer
    return {
        "decisions": len(decided),
        "items": len({unit for unit, _ in decided}),
        "by": dict(sorted(Counter(decided.values()).items())),
        "answers": answers,
        "answers_that_differ": changed,
    }


def _decided_answers(task: StudyTask, questions: Mapping[str, AskedQuestion]) -> dict[str, Answer]:
    """Return the answers of a task that a decision takes the place of, as its participant would have given them."""
    return dict(_decided(task, questions)) if task.decisions and task.is_done and task.check is None else {}


def _decided(task: StudyTask, questions: Mapping[str, AskedQuestion]) -> Iterator[tuple[str, Answer]]:
    for name, decision in (task.decisions or {}).items():
        question = questions.get(name)
        answer = None if question is None else _as_answered(decision.value, question, task)
        if answer is not None:
            yield from ((key, answer) for key in (name, f"{TaskSideName.ONE.value}/{name}") if key in task.answers)


def _as_answered(decided: Answer, question: AskedQuestion, task: StudyTask) -> Answer:
    """Return a decision in the words of the form: of a choice it names the better system, and the form a side."""
    if question.type is AnswerType.NUMBER:
        return decided if is_number(decided) else None
    if question.type is not AnswerType.PAIR:
        return decided
    names = {
        side: bot.bot for side in (TaskSideName.LEFT, TaskSideName.RIGHT) if (bot := task.bot_of(side)) is not None
    }
    outcomes = {TIE: 0, names.get(TaskSideName.LEFT): 1, names.get(TaskSideName.RIGHT): -1}
    outcome = outcomes.get(decided if isinstance(decided, str) else None)
    if outcome is None:
        return None
    turned = -outcome if question.is_reversed else outcome
    return next(answer for answer, place in CHOICES.items() if place == turned)
