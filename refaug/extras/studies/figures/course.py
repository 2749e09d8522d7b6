"""How participants went through a study: how many came to each task and finished it, and how many minutes it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from refaug.extras.studies.records import StudyTask, TaskCheck, TaskState, task_order


@dataclass(frozen=True, kw_only=True)
class TaskStep:
    """The participants' first tasks, or second ones and so on: how many were begun, and how these ended."""

    task: int
    begun: int
    done: int
    skipped: int
    expired: int


@dataclass(frozen=True, kw_only=True)
class TimeSpread:
    """Median and quartiles of times in minutes."""

    n: int
    lower: float
    median: float
    upper: float


def task_steps(tasks: Iterable[StudyTask]) -> list[TaskStep]:
    """Return the steps of a study by the place of a task among those of its participant; practice is left out."""
    by_place: dict[int, Counter[TaskState]] = {}
    for own in _by_participant(tasks):
        for place, task in enumerate(own, 1):
            by_place.setdefault(place, Counter())[task.state] += 1
    return [
        TaskStep(
            task=place,
            begun=states.total(),
            done=states[TaskState.DONE],
            skipped=states[TaskState.SKIPPED],
            expired=states[TaskState.EXPIRED],
        )
        for place, states in sorted(by_place.items())
    ]


def minutes_a_task(tasks: Iterable[StudyTask]) -> TimeSpread | None:
    """Return the minutes of finished tasks; None without any."""
    return _spread([task.seconds for own in _by_participant(tasks) for task in own if task.is_done and task.seconds])


def minutes_a_participant(tasks: Iterable[StudyTask]) -> TimeSpread | None:
    """Return the minutes of all finished tasks of a participant together; None without any."""
    sums = [sum(task.seconds or 0.0 for task in own if task.is_done) for own in _by_participant(tasks)]
    return _spread([seconds for seconds in sums if seconds])


def _by_participant(tasks: Iterable[StudyTask]) -> list[list[StudyTask]]:
    """Return the tasks of each participant in the order in which they were done."""
    by_participant: dict[str, list[StudyTask]] = {}
    for task in sorted(tasks, key=task_order):
        if task.check is not TaskCheck.TRAINING:
            by_participant.setdefault(task.participant, []).append(task)
    return list(by_participant.values())


def _spread(seconds: Sequence[float]) -> TimeSpread | None:
    if not seconds:
        return None
    lower, middle, upper = (float(bound) / 60 for bound in np.quantile(seconds, [0.25, 0.5, 0.75]))
    return TimeSpread(n=len(seconds), lower=lower, median=middle, upper=upper)
