"""Responses of a study as its operators read them: a row a task, with what is conspicuous about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean
from typing import Final

from refaug.extras.studies.exclusions import FEWEST_ANSWERS, BrokenRule, Exclusions
from refaug.extras.studies.questions import ATTENTION, AskedQuestion, choice_rows, is_number, rating_rows
from refaug.extras.studies.records import StudyTask, TaskState

ANY_FLAG: Final = "any"
NO_FLAG: Final = "none"
COMMENT_CHARS: Final = 200


class TaskFlag(StrEnum):
    """What is conspicuous about one task, beside the rules that its participant has broken."""

    SKIPPED = "skipped"
    EXPIRED = "expired"
    WRONG_ATTENTION = "wrong_attention"
    SAME_ANSWER = "same_answer"
    NAMES_BOT = "names_bot"
    COMMENTED = "commented"


class ResponseOrder(StrEnum):
    """What responses are sorted by."""

    ENDED = "ended"
    SCORE = "score"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResponse:
    """What one participant answered in one task; scores are means over its sides, and higher is better."""

    task: str
    participant: str
    position: int
    item: str | None
    bots: tuple[str, ...]
    state: TaskState
    check: str | None
    seconds: float | None
    ended: str | None
    scores: Mapping[str, float]
    chosen: Mapping[str, str]  # by question, the bot that was preferred, or tie
    comment: str
    flags: tuple[BrokenRule, ...]


@dataclass(frozen=True, kw_only=True)
class ResponseQuery:
    """Which responses are wanted, and in which order; those without the figure of the order come last."""

    bot: str = ""
    participant: str = ""
    item: str = ""
    flag: str = ""
    question: str = ""
    low: float | None = None
    high: float | None = None
    order: ResponseOrder = ResponseOrder.ENDED
    is_descending: bool = True

    def of(self, responses: Sequence[StudyResponse]) -> list[StudyResponse]:
        """Return the responses that are wanted."""
        chosen_responses = [response for response in responses if self._wants(response)]
        figures = {response.task: self._figure(response) for response in chosen_responses}
        present = [response for response in chosen_responses if figures[response.task] is not None]
        present.sort(key=lambda response: (figures[response.task], response.task), reverse=self.is_descending)
        return present + [response for response in chosen_responses if figures[response.task] is None]

    def _wants(self, response: StudyResponse) -> bool:
        score = response.scores.get(self.question)
        return (
            (not self.bot or self.bot in response.bots)
            and (not self.participant or response.participant == self.participant)
            and (not self.item or response.item == self.item)
            and self._wants_flags({broken.rule for broken in response.flags} - {TaskFlag.COMMENTED})
            and (self.flag != TaskFlag.COMMENTED or bool(response.comment))
            and (self.low is None or (score is not None and score >= self.low))
            and (self.high is None or (score is not None and score <= self.high))
        )

    def _wants_flags(self, flags: set[str]) -> bool:
        if self.flag == NO_FLAG:
            return not flags
        return bool(flags) if self.flag == ANY_FLAG else self.flag in ("", TaskFlag.COMMENTED) or self.flag in flags

    def _figure(self, response: StudyResponse) -> float | str | None:
        match self.order:
            case ResponseOrder.SCORE:
                return response.scores.get(self.question)
            case ResponseOrder.SECONDS:
                return response.seconds
            case _:
                return response.ended


@dataclass(frozen=True, kw_only=True)
class StudyResponses:
    """All responses of a study, and the rules that its participants have broken."""

    responses: Sequence[StudyResponse]
    broken: Mapping[str, tuple[BrokenRule, ...]] = field(default_factory=dict)  # by participant


def study_responses(
    tasks: Sequence[StudyTask], left_out: Exclusions, questions: Sequence[AskedQuestion], text_questions: set[str]
) -> StudyResponses:
    """Return a row for each task; `text_questions` are those whose answers are comments."""
    numbers = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    for rated in rating_rows(tasks, questions):
        numbers[rated.task.task][rated.question].append(rated.number)
    chosen = defaultdict[str, dict[str, str]](dict)
    for choice in choice_rows(tasks, questions):
        better = {1: choice.left, -1: choice.right, 0: "tie"}[choice.outcome]
        chosen[choice.task.task][choice.question] = better
    responses = [
        StudyResponse(
            task=task.task,
            participant=task.participant,
            position=task.position,
            item=None if task.item is None else str(task.item.get("unit", task.item.get("id"))),
            bots=tuple(bot.bot for bot in task.bots),
            state=task.state,
            check=task.check,
            seconds=task.seconds,
            ended=task.ended,
            scores={question: fmean(own) for question, own in numbers.get(task.task, {}).items()},
            chosen=chosen.get(task.task, {}),
            comment=_comment(task, text_questions),
            flags=(*_task_flags(task, questions, text_questions), *left_out.reasons.get(task.participant, ())),
        )
        for task in tasks
    ]
    return StudyResponses(responses=responses, broken=left_out.reasons)


def _comment(task: StudyTask, text_questions: set[str]) -> str:
    written = (
        answer.strip()
        for name, answer in task.answers.items()
        if name.rpartition("/")[2] in text_questions and isinstance(answer, str) and answer.strip()
    )
    return " · ".join(written)[:COMMENT_CHARS]


def _task_flags(task: StudyTask, questions: Sequence[AskedQuestion], text_questions: set[str]) -> list[BrokenRule]:
    flags = list[BrokenRule]()
    if task.state is not TaskState.DONE:
        flag = TaskFlag.SKIPPED if task.state is TaskState.SKIPPED else TaskFlag.EXPIRED
        flags.append(BrokenRule(rule=flag, detail=task.skip_reason or ""))
    if task.answers.get(ATTENTION) is False:
        flags.append(BrokenRule(rule=TaskFlag.WRONG_ATTENTION, detail="the check in this task was answered wrongly"))
    scales = {question.id for question in questions if question.least is not None}
    numbers = [
        answer for name, answer in task.answers.items() if name.rpartition("/")[2] in scales and is_number(answer)
    ]
    if len(numbers) >= FEWEST_ANSWERS and len(set(numbers)) == 1:
        flags.append(BrokenRule(rule=TaskFlag.SAME_ANSWER, detail=f"{numbers[0]:g} in all {len(numbers)} answers"))
    if task.names_bot:
        flags.append(BrokenRule(rule=TaskFlag.NAMES_BOT, detail="a reply names a bot or its maker"))
    if comment := _comment(task, text_questions):
        flags.append(BrokenRule(rule=TaskFlag.COMMENTED, detail=comment))
    return flags
