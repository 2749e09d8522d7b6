"""The questions of a study as its analysis needs them, and every answer to one as a number about a bot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeGuard

from refaug.core.errors import BadInput
from refaug.extras.studies.records import Answer, StudyTask, TaskCheck, TaskSideName

CHOICES: Final[Mapping[str, int]] = {"left": 1, "right": -1, "tie": 0}
ACTIVE: Final = "active"  # the value of a protocol's `routing` by which votes choose the next pair
ATTENTION: Final = "attention"  # the id under which a task keeps whether its check of attention was passed


class AnswerType(StrEnum):
    """What kind of answer a question has."""

    NUMBER = "number"  # on a scale
    PAIR = "pair"  # left, right or tie
    OTHER = "other"  # choices, texts, spans


_TYPES: Final = {"likert": AnswerType.NUMBER, "slider": AnswerType.NUMBER, "pair": AnswerType.PAIR}


@dataclass(frozen=True, kw_only=True)
class AskedQuestion:
    """A question, with the ends of its scale where it has one; where it is reversed, a low answer is good."""

    id: str
    type: AnswerType
    least: float | None = None
    most: float | None = None
    is_reversed: bool = False
    scope: str = "task"

    def turned(self, answer: float) -> float:
        """Return the answer so that higher is better."""
        if not self.is_reversed or self.least is None or self.most is None:
            return answer
        return self.least + self.most - answer


@dataclass(frozen=True, kw_only=True)
class RatingRow:
    """A participant's answer about one bot, as a number, higher being better."""

    question: str
    bot: str
    participant: str
    number: float
    task: StudyTask
    side: TaskSideName


@dataclass(frozen=True, kw_only=True)
class ChoiceRow:
    """A participant's choice between two bots: 1 for the left one, −1 for the right one, 0 for neither."""

    question: str
    left: str
    right: str
    participant: str
    outcome: int
    task: StudyTask


def protocol_questions(protocol: Mapping[str, Any] | None, tasks: Sequence[StudyTask]) -> tuple[AskedQuestion, ...]:
    """Return the questions of a frozen protocol; without one, those that tasks answer with numbers or sides.

    Without a protocol no question is reversed.
    """
    if protocol is None:
        return _answered_questions(tasks)
    form = protocol.get("form")
    if not isinstance(form, Mapping) or not isinstance(form.get("questions"), list):
        raise BadInput(
            "protocol: form: an object with questions was expected", remedy="the frozen protocol of the study"
        )
    return tuple(_question(entry, place) for place, entry in enumerate(form["questions"]))


def routed_question(protocol: Mapping[str, Any] | None) -> str | None:
    """Return the choice whose order active routing seeks: the first main one, or the form's first; None without it."""
    if protocol is None or protocol.get("routing") != ACTIVE:
        return None
    form_questions = protocol["form"]["questions"]
    choices = [each["id"] for each in form_questions if each["type"] == "pair" and each.get("scope", "task") == "task"]
    main = (protocol.get("analysis") or {}).get("main") or ()
    return next((each for each in [*main, *choices] if each in choices), None)


def _question(entry: Any, place: int) -> AskedQuestion:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
        raise BadInput(f"protocol: form.questions[{place}].id is missing", remedy="a text")
    kind = _TYPES.get(str(entry.get("type")), AnswerType.OTHER)
    least, most = entry.get("least"), entry.get("most")
    if kind is AnswerType.NUMBER:
        least, most = 1 if least is None else least, 7 if most is None else most
        if not isinstance(least, int | float) or not isinstance(most, int | float) or not least < most:
            raise BadInput(
                f"protocol: form.questions[{place}]: {least!r} to {most!r} is not a scale", remedy="such as 1 to 7"
            )
    return AskedQuestion(
        id=entry["id"],
        type=kind,
        least=least,
        most=most,
        is_reversed=bool(entry.get("reverse", False)),
        scope=str(entry.get("scope", "task")),
    )


def _answered_questions(tasks: Sequence[StudyTask]) -> tuple[AskedQuestion, ...]:
    types = dict[str, AnswerType]()
    for task in tasks:
        for name, answer in task.answers.items():
            question = name.rpartition("/")[2]
            if question != ATTENTION:
                earlier = types.get(question, AnswerType.NUMBER)
                types[question] = max(earlier, _type_of(answer), key=list(AnswerType).index)
    return tuple(AskedQuestion(id=question, type=kind) for question, kind in sorted(types.items()))


def _type_of(answer: Answer) -> AnswerType:
    if answer is None or is_number(answer):
        return AnswerType.NUMBER
    return AnswerType.PAIR if isinstance(answer, str) and answer in CHOICES else AnswerType.OTHER


def is_number(answer: Answer) -> TypeGuard[int | float]:
    """Say whether an answer is on a scale."""
    return isinstance(answer, int | float) and not isinstance(answer, bool)


def rating_rows(tasks: Iterable[StudyTask], questions: Sequence[AskedQuestion]) -> Iterator[RatingRow]:
    """Yield every number that finished tasks have about a bot, turned so that higher is better."""
    scales = [question for question in questions if question.type is AnswerType.NUMBER]
    for task in tasks:
        if not task.is_done:
            continue
        for bot in task.bots:
            answers = task.answers_of(bot.side)
            for question in scales:
                answer = answers.get(question.id)
                if is_number(answer):
                    yield RatingRow(
                        question=question.id,
                        bot=bot.bot,
                        participant=task.participant,
                        number=question.turned(float(answer)),
                        task=task,
                        side=bot.side,
                    )


def choice_rows(tasks: Iterable[StudyTask], questions: Sequence[AskedQuestion]) -> Iterator[ChoiceRow]:
    """Yield every choice between two bots of finished tasks, turned so that 1 is the better side."""
    pairs = [question for question in questions if question.type is AnswerType.PAIR]
    for task in tasks:
        left_bot, right_bot = task.bot_of(TaskSideName.LEFT), task.bot_of(TaskSideName.RIGHT)
        if not task.is_done or left_bot is None or right_bot is None or left_bot.bot == right_bot.bot:
            continue
        for question in pairs:
            answer = task.answers.get(question.id)
            if isinstance(answer, str) and answer in CHOICES:
                outcome = -CHOICES[answer] if question.is_reversed else CHOICES[answer]
                yield ChoiceRow(
                    question=question.id,
                    left=left_bot.bot,
                    right=right_bot.bot,
                    participant=task.participant,
                    outcome=outcome,
                    task=task,
                )


def main_tasks(tasks: Iterable[StudyTask]) -> list[StudyTask]:
    """Return the finished tasks that count: no checks, no training."""
    return [task for task in tasks if task.is_done and task.check is None]


def degraded_tasks(tasks: Iterable[StudyTask]) -> list[StudyTask]:
    """Return the finished tasks with the degraded bot."""
    return [task for task in tasks if task.is_done and task.check is TaskCheck.DEGRADED]
