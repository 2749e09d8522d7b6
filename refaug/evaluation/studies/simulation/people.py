"""Simulated participants: honest ones with a level and a taste, and four kinds of careless ones.

An honest rating is the bot's quality, the participant's level and noise, rounded to the scale. Careless participants
answer at random, give one number throughout, do not care which bot it was, or hurry through and copy what the bot says.
Every draw depends on the seed and on the participant alone: one more participant changes none of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import sqrt
from typing import Annotated, Any, Final

import numpy as np

from refaug.core.errors import Usage
from refaug.core.options.declaring import Ge, Le
from refaug.evaluation.studies.assignment.williams import planned_order, williams_rows
from refaug.evaluation.studies.imports.rated_conversations import protocol_sha256
from refaug.evaluation.studies.questions import ATTENTION
from refaug.evaluation.studies.records import (
    Answer,
    StudyKind,
    StudyTask,
    TaskBot,
    TaskCheck,
    TaskSide,
    TaskSideName,
    TaskState,
    TaskTurn,
    TurnRole,
)
from refaug.evaluation.studies.simulation.people_options import PeopleOptions

DEGRADED: Final = "degraded"
_ATTENTIVE: Final = 0.99  # of the attention checks that an honest participant passes
_WORDS: Final = (
    "morning", "train", "garden", "coffee", "music", "river", "window", "letter", "summer", "market", "story", "paper",
)  # fmt: skip
_HONEST_PACE: Final = 14.0  # seconds a turn, in the median
_HASTY_PACE: Final = 0.9
HASTE: Final = _HASTY_PACE / _HONEST_PACE  # of an honest pace


class Carelessness(StrEnum):
    """How a participant does not do what was asked."""

    RANDOM = "random"
    CONSTANT = "constant"
    BLIND = "blind"  # to the bot: rates all alike, degraded or not
    COPIER = "copier"  # fast


@dataclass(frozen=True, kw_only=True)
class SimulatedPeople(PeopleOptions):
    """What participants are like; qualities and noise are in points of the scale."""

    qualities: Mapping[str, float]  # of each bot
    degraded_below: float = 2.2  # by how much the degraded bot is worse than the mean of the others
    tasks: Annotated[int, Ge(1), Le(1_000)] = 4  # of each participant, without checks
    turns: int = 4
    questions: tuple[str, ...] = ("quality", "diversity", "fluency", "contingency", "empathy")
    least: int = 1
    most: int = 7
    exclude: Mapping[str, Any] = field(
        default_factory=lambda: {
            "failed_attention": 1,
            "degraded_not_lower": True,
            "same_answer_everywhere": True,
            "seconds_per_turn_below": 2,
            "copied_messages": 0.5,
        }
    )

    def check(self) -> None:
        """Refuse fewer than two bots."""
        if len(self.qualities) < 2:
            raise Usage(f"{len(self.qualities)} bots have no order", remedy="two bots or more", field="qualities")

    def protocol(self) -> dict[str, object]:
        """Return the protocol that such a study has."""
        return {
            "kind": StudyKind.CHAT.value,
            "bots": list(self.qualities),
            "form": {
                "name": "simulated",
                "questions": [
                    {"id": name, "text": name, "type": "likert", "least": self.least, "most": self.most}
                    for name in self.questions
                ],
            },
            "exclude": dict(self.exclude),
        }


@dataclass(frozen=True, kw_only=True)
class SimulatedStudy:
    """The tasks of a study, and the truth about its participants."""

    tasks: tuple[StudyTask, ...]
    protocol: Mapping[str, Any]
    careless: Mapping[str, Carelessness]  # participant → kind; the others are honest


def simulated_study(people: SimulatedPeople, seed: int, *, name: str = "simulated") -> SimulatedStudy:
    """Return a study as these people would do it; the careless ones are of the four kinds in turn."""
    places = careless_places(people.participants, people.careless, seed)
    careless = {_code(place): kind for place, kind in places.items()}
    bots = list(people.qualities)
    rows, protocol = williams_rows(len(bots)), people.protocol()
    sha256 = protocol_sha256(protocol)
    tasks = list[StudyTask]()
    for place in range(people.participants):
        order = [bots[slot] for slot in planned_order(rows, place % len(rows), people.tasks)]
        person = _Person(people, np.random.default_rng([seed, 1, place]), careless.get(_code(place)))
        tasks += person.tasks(order, name, sha256, _code(place))
    return SimulatedStudy(tasks=tuple(tasks), protocol=protocol, careless=careless)


def careless_places(participants: int, share: float, seed: int) -> dict[int, Carelessness]:
    """Return which participants are careless, and how: the four kinds in turn."""
    kinds = list(Carelessness)
    places = np.random.default_rng([seed, 0]).permutation(participants)[: round(share * participants)]
    return {int(place): kinds[number % len(kinds)] for number, place in enumerate(sorted(places))}


def sentence_of(random: np.random.Generator) -> str:
    """Return some words."""
    return " ".join(_WORDS[place] for place in random.integers(0, len(_WORDS), size=7))


def _code(place: int) -> str:
    return f"P-{place:05}"


class _Person:
    """A participant who does tasks one after the other."""

    def __init__(self, people: SimulatedPeople, random: np.random.Generator, kind: Carelessness | None) -> None:
        self.people, self.random, self.kind = people, random, kind
        self.level = people.sd * sqrt(people.rho) * random.standard_normal()
        self.favourite = int(random.integers(people.least, people.most + 1))
        mean = float(np.mean(list(people.qualities.values())))
        self.qualities = {**people.qualities, DEGRADED: mean - people.degraded_below}
        self.mean = mean

    def tasks(self, order: Sequence[str], study: str, sha256: str, code: str) -> list[StudyTask]:
        """Return the tasks: the bots in order, with the degraded one among them and one check of attention."""
        at = int(self.random.integers(1, len(order) + 1))
        sequence = [*order[:at], DEGRADED, *order[at:]]
        checked = int(self.random.choice([place for place, bot in enumerate(sequence) if bot != DEGRADED]))
        return [
            self._task(bot, study, sha256, code, position, has_check=position - 1 == checked)
            for position, bot in enumerate(sequence, 1)
        ]

    def _task(self, bot: str, study: str, sha256: str, code: str, position: int, *, has_check: bool) -> StudyTask:
        answers: dict[str, Answer] = {name: self._rating(bot) for name in self.people.questions}
        if has_check:
            answers[ATTENTION] = self._is_attentive()
        pace = _HASTY_PACE if self.kind is Carelessness.COPIER else _HONEST_PACE
        seconds = self.people.turns * pace * float(np.exp(0.3 * self.random.standard_normal()))
        return StudyTask(
            study=study,
            protocol_sha256=sha256,
            task=f"{code}-{position}",
            participant=code,
            kind=StudyKind.CHAT,
            position=position,
            state=TaskState.DONE,
            check=TaskCheck.DEGRADED if bot == DEGRADED else None,
            bots=[TaskBot(side=TaskSideName.ONE, slot=bot, bot=bot)],
            sides=[TaskSide(side=TaskSideName.ONE, turns=self._turns())],
            answers=answers,
            seconds=round(seconds, 3),
        )

    def _rating(self, bot: str) -> int:
        least, most = self.people.least, self.people.most
        if self.kind is Carelessness.CONSTANT:
            return self.favourite
        if self.kind in {Carelessness.RANDOM, Carelessness.COPIER}:
            return int(self.random.integers(least, most + 1))
        quality = self.mean if self.kind is Carelessness.BLIND else self.qualities[bot]
        noise = self.people.sd * sqrt(1 - self.people.rho) * self.random.standard_normal()
        return int(np.clip(round(quality + self.level + noise), least, most))

    def _is_attentive(self) -> bool:
        """Return whether the check is passed; who does not read passes it by chance, one option in the scale's."""
        reads = self.kind in {None, Carelessness.BLIND}
        chance = _ATTENTIVE if reads else 1 / (self.people.most - self.people.least + 1)
        return bool(self.random.random() < chance)

    def _turns(self) -> list[TaskTurn]:
        turns, reply = list[TaskTurn](), ""
        for place in range(self.people.turns):
            copies = self.kind is Carelessness.COPIER and reply
            text = reply if copies else self._sentence()
            turns.append(TaskTurn(n=2 * place + 1, role=TurnRole.PARTICIPANT, text=text))
            reply = self._sentence()
            turns.append(TaskTurn(n=2 * place + 2, role=TurnRole.BOT, text=reply))
        return turns

    def _sentence(self) -> str:
        return sentence_of(self.random)
