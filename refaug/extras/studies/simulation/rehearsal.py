"""A study rehearsed many times with simulated people: whom the rules catch, and whether the order of bots is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from scipy import stats

from refaug.core.errors import Usage
from refaug.core.progress import Progress, Silent
from refaug.extras.studies.exclusions import exclusions
from refaug.extras.studies.questions import main_tasks, protocol_questions, rating_rows
from refaug.extras.studies.records import StudyTask
from refaug.extras.studies.simulation.people import Carelessness, SimulatedPeople, SimulatedStudy, simulated_study


def rehearse(
    people: SimulatedPeople, *, studies: int, seed: int, progress: Progress | None = None
) -> Mapping[str, Any]:
    """Simulate studies one after the other, and return the rates over all of them.

    `order` has the share of studies whose bots come in the true order, and the mean rank correlation with it; `balance`
    the largest difference of finished tasks between two bots of a study.
    """
    if studies < 1:
        raise Usage(f"{studies} studies", remedy="1 or more")
    progress = progress or Silent()
    progress.stage("rehearse", studies, "studies")
    caught, counts, rules = Counter[str](), Counter[str](), Counter[str]()
    correlations: dict[str, list[float]] = {"kept": [], "all": []}
    balance = 0
    for number in range(studies):
        study = simulated_study(people, seed + number)
        questions = protocol_questions(study.protocol, study.tasks)
        left_out = exclusions(study.tasks, study.protocol["exclude"], questions)
        names = {task.participant for task in study.tasks}
        _count(names, study.careless, left_out.reasons, caught, counts)
        rules.update(left_out.by_rule())
        for name, tasks in (("kept", left_out.kept(study.tasks)), ("all", list(study.tasks))):
            correlations[name].append(_order_found(people, study, tasks))
        of_bots = Counter(task.bots[0].bot for task in main_tasks(study.tasks))
        balance = max(balance, max(of_bots.values()) - min(of_bots.values()))
        progress.advance(1)
    return {
        "studies": studies,
        "participants": people.participants,
        "caught": _shares(caught, counts),
        "by_rule": dict(rules),
        "order": {
            name: {"found": float(np.mean(np.array(own) > 1 - 1e-9)), "spearman": float(np.mean(own))}
            for name, own in correlations.items()
        },
        "balance": balance,
    }


def caught_shares(
    participants: Collection[str], careless: Mapping[str, Carelessness], reasons: Mapping[str, object]
) -> dict[str, object]:
    """Return how many honest and careless participants there are and how many of them are left out."""
    caught, counts = Counter[str](), Counter[str]()
    _count(participants, careless, reasons, caught, counts)
    return _shares(caught, counts)


def _shares(caught: Counter[str], counts: Counter[str]) -> dict[str, object]:
    return {
        str(kind): {"participants": counts[kind], "left_out": caught[kind], "share": caught[kind] / counts[kind]}
        for kind in ["honest", "careless", *Carelessness]
        if counts[kind]
    }


def _count(
    participants: Collection[str],
    careless: Mapping[str, Carelessness],
    reasons: Mapping[str, object],
    caught: Counter[str],
    counts: Counter[str],
) -> None:
    for participant in participants:
        kind = careless.get(participant)
        names = ("honest",) if kind is None else ("careless", kind.value)
        for name in names:
            counts[name] += 1
            caught[name] += participant in reasons


def _order_found(people: SimulatedPeople, study: SimulatedStudy, tasks: list[StudyTask]) -> float:
    """Return the rank correlation of the bots' means with their qualities; 0 where a bot has no rating left."""
    questions = protocol_questions(study.protocol, tasks)
    numbers: dict[str, list[float]] = {bot: [] for bot in people.qualities}
    for row in rating_rows(main_tasks(tasks), questions):
        numbers[row.bot].append(row.number)
    if not all(numbers.values()):
        return 0.0
    means = [float(np.mean(own)) for own in numbers.values()]
    correlation = float(stats.spearmanr(means, list(people.qualities.values())).statistic)
    return 0.0 if np.isnan(correlation) else correlation
