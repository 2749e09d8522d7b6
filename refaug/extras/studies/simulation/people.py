"""Simulated participants: honest ones with a level and a taste, and four kinds of careless ones.

An honest rating is the bot's quality, the participant's level and noise, rounded to the scale. Careless participants
answer at random, give one number throughout, do not care which bot it was, or hurry through and copy what the bot says.
Every draw depends on the seed and on the participant alone: one more participant changes none of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import sqrt
from typing import Annotated, Any, Final

import numpy as np

from refaug.core.errors import Usage
from refaug.core.options.declaring import Ge, Le
from refaug.extras.studies.assignment import planned_order, williams_rows
from refaug.extras.studies.imports import protocol_sha256
from refaug.extras.studies.protocol.study_form import given_labels
from refaug.extras.studies.questions import ATTENTION
from refaug.extras.studies.records import (
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
from refaug.extras.studies.simulation.people_options import PeopleOptions

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


# ── How a simulated person answers the form of a task: by what is true of its bots, or carelessly ─────────────────────
#
# The truth is in points of one scale; a question with another scale is answered at the same place of that one.

REFERENCES: Final = "references"  # the system of references that are rated: each is as good as its text says
_SPREAD: Final = 0.3  # of the logarithm of a pace
_TIE_SD: Final = 0.25  # sides that differ by less than so many standard deviations are a tie

Place = tuple[str, int]  # side and turn; "" and 0 for the whole task


@dataclass(frozen=True, kw_only=True)
class RehearsedPeople(PeopleOptions):
    """What the people of a rehearsal on a server are like; qualities and noise are in points of the scale."""

    qualities: Mapping[str, float]  # of each bot or system
    degraded: tuple[str, ...] = ()  # bots that are worse than the mean of the others
    degraded_below: float = 2.2
    least: float = 1
    most: float = 7
    pace_s: float = 0.0  # seconds an honest person takes for a message or a turn, in the median; 0: none
    seed: int = 1

    def check(self) -> None:
        """Refuse a study without bots, and a scale without two points."""
        if not self.qualities:
            raise Usage("there are no bots to rate", remedy="a study with bots or items")
        if not self.least < self.most:
            raise Usage(f"{self.least:g} to {self.most:g} is not a scale", remedy="such as 1 to 7")

    @property
    def mean(self) -> float:
        """The mean of the qualities."""
        return float(np.mean(list(self.qualities.values())))

    def quality_of(self, bot: str, payload: Mapping[str, Any]) -> float:
        """Return the quality of a bot; that of a reference is drawn from its text."""
        if bot in self.degraded:
            return self.mean - self.degraded_below
        if bot == REFERENCES and isinstance(payload.get("reference"), str):
            return self.reference_quality(payload["reference"])
        return self.qualities.get(bot, self.mean)

    def reference_quality(self, text: str) -> float:
        """Return the quality of a reference, which all people see alike."""
        drawn = int.from_bytes(hashlib.sha256(f"{self.seed} {text}".encode()).digest()[:6], "big") / 2**48
        return self.least + drawn * (self.most - self.least)


class AnsweringPerson:
    """A simulated person: a level, a taste, and perhaps a way of being careless; everything follows from the seed."""

    def __init__(self, people: RehearsedPeople, place: int, kind: Carelessness | None) -> None:
        self.people, self.kind = people, kind
        self._random = np.random.default_rng([people.seed, 1, place])
        self._level = people.sd * sqrt(people.rho) * float(self._random.standard_normal())
        self._favourite = float(self._random.random())

    def answers(
        self, task: Mapping[str, Any], bots: Mapping[str, str], first_turn: int = 1
    ) -> dict[Place, dict[str, object]]:
        """Return the answers to the form of a task by place; `bots` has the bot on each side.

        Turns before `first_turn` are not asked about.
        """
        payload, questions = task["payload"], task["form"]["questions"]
        qualities = {side: self.people.quality_of(bot, payload) for side, bot in bots.items()}
        whole_scopes = ("task", "side") if len(bots) == 1 else ("task",)
        whole = [question for question in questions if question["scope"] in whole_scopes]
        of_side = [question for question in questions if question["scope"] == "side"]
        of_turn = [question for question in questions if question["scope"] == "turn"]
        places: dict[Place, dict[str, object]] = {("", 0): self._fill(whole, qualities)}
        for side, quality in qualities.items() if len(bots) > 1 else ():
            places[side, 0] = self._fill(of_side, {side: quality})
        for side in task["sides"] if of_turn else ():
            own = {side["side"]: qualities.get(side["side"], self.people.mean)}
            for message in side["messages"]:
                if message["role"] == "bot" and message["state"] == "answered" and message["n"] >= first_turn:
                    places[side["side"], message["n"]] = self._fill(of_turn, own, message["text"])
        return {place: filled for place, filled in places.items() if filled}

    def screening(self, questions: Sequence[Mapping[str, Any]]) -> dict[str, object]:
        """Return answers that let the person in, as far as the protocol says which do."""
        answers = self._fill(questions, {})
        for question in questions:
            if accepted := question.get("accept"):
                answers[question["id"]] = accepted[int(self._random.integers(len(accepted)))]
        return answers

    def training(self, form: Mapping[str, Any], right: Mapping[str, Sequence[Any]], attempt: int) -> dict[str, object]:
        """Return answers to an item of the training: right of who reads, nearly always, and the second time surely."""
        answers = self._fill([{**question, "required": True} for question in form["questions"]], {})
        if self._reads and (attempt > 1 or self._random.random() < _ATTENTIVE):
            answers |= {question: accepted[0] for question, accepted in right.items()}
        return answers

    def message(self, last_reply: str) -> str:
        """Return what the person says; one who copies repeats the bot."""
        copies = self.kind is Carelessness.COPIER and last_reply.strip()
        return last_reply if copies else sentence_of(self._random)

    def pause_s(self) -> float:
        """Return how long the person takes for a message or a turn."""
        pace = self.people.pace_s * (HASTE if self.kind is Carelessness.COPIER else 1)
        return pace * float(np.exp(_SPREAD * self._random.standard_normal()))

    @property
    def _reads(self) -> bool:
        return self.kind in {None, Carelessness.BLIND}

    @property
    def _draws(self) -> bool:
        return self.kind in {Carelessness.RANDOM, Carelessness.COPIER}

    def _fill(
        self, questions: Sequence[Mapping[str, Any]], qualities: Mapping[str, float], text: str = ""
    ) -> dict[str, object]:
        """Answer the questions of one place in their order, as far as they are shown."""
        answers = dict[str, object]()
        for question in questions:
            if _is_shown(question, answers) and (answer := self._answer(question, qualities, text)) is not None:
                answers[question["id"]] = answer
        return answers

    def _answer(self, question: Mapping[str, Any], qualities: Mapping[str, float], text: str) -> Any:
        match question["type"]:
            case "likert" | "slider":
                return self._number(question, list(qualities.values()))
            case "pair":
                return self._side(question, qualities)
            case "choice":
                return self._choice(question)
            case "labels":
                return self._labels(question, list(qualities.values()))
            case "spans":
                return self._spans(question, text)
        return sentence_of(self._random) if question["required"] else None

    def _number(self, question: Mapping[str, Any], qualities: Sequence[float]) -> float:
        """Return a rating: a share of the scale, brought to an option of the question."""
        people, least, most = self.people, question["least"], question["most"]
        is_likert, options = question["type"] == "likert", int(most) - int(least) + 1
        if self.kind is Carelessness.CONSTANT or self._draws:
            share = self._favourite if self.kind is Carelessness.CONSTANT else float(self._random.random())
            if is_likert:
                return int(least) + int(share * options)
        else:
            rating = self._quality(qualities) + self._level + self._noise()
            share = min(1.0, max(0.0, (rating - people.least) / (people.most - people.least)))
            share = 1 - share if question["reverse"] else share
            if is_likert:
                return int(least) + round(share * (options - 1))
        return float(min(most, max(least, round(least + share * (most - least), 1))))

    def _side(self, question: Mapping[str, Any], qualities: Mapping[str, float]) -> str:
        values = [str(option["value"]) for option in question["options"]]
        if self.kind is Carelessness.CONSTANT:
            return values[int(self._favourite * len(values))]
        if self._draws:
            return values[int(self._random.integers(len(values)))]
        first, second = (self._quality([qualities.get(side, self.people.mean)]) for side in ("left", "right"))
        difference = first + self._noise() - second - self._noise()
        if "tie" in values and abs(difference) < _TIE_SD * self.people.sd:
            return "tie"
        return "left" if (difference > 0) is not question["reverse"] else "right"

    def _choice(self, question: Mapping[str, Any]) -> str:
        options = question["options"]
        if question["id"] == ATTENTION and self._reads and self._random.random() < _ATTENTIVE:
            quoted = (option for option in options if _quotes(question["text"], option["text"]))
            if (option := next(quoted, None)) is not None:
                return str(option["value"])
        if self.kind is Carelessness.CONSTANT:
            return str(options[int(self._favourite * len(options))]["value"])
        return str(options[int(self._random.integers(len(options)))]["value"])

    def _labels(self, question: Mapping[str, Any], qualities: Sequence[float]) -> list[str]:
        """Give each label to every second reply of the worst bot, and to none of the best; without care, to any."""
        if self.kind is Carelessness.CONSTANT:
            return [self._choice(question)]
        people = self.people
        share = 0.5 * (people.most - self._quality(qualities)) / (people.most - people.least)
        share = 0.5 if self._draws else min(0.5, max(0.0, share))
        return [str(option["value"]) for option in question["options"] if self._random.random() < share]

    def _spans(self, question: Mapping[str, Any], text: str) -> list[dict[str, object]]:
        """Mark the first word."""
        end = len(text.split(" ", 1)[0]) or len(text)
        return [{"start": 0, "end": end, "label": self._choice(question)}] if text else []

    def _quality(self, qualities: Sequence[float]) -> float:
        is_blind = self.kind is Carelessness.BLIND or not qualities
        return self.people.mean if is_blind else float(np.mean(qualities))

    def _noise(self) -> float:
        return self.people.sd * sqrt(1 - self.people.rho) * float(self._random.standard_normal())


def _is_shown(question: Mapping[str, Any], answers: Mapping[str, Any]) -> bool:
    def is_given(answer: Any, values: Sequence[Any]) -> bool:
        return any(label in values for label in given_labels(answer)) if isinstance(answer, list) else answer in values

    return all(is_given(answers.get(name), values) for name, values in question.get("show_if", {}).items())


def _quotes(text: str, option: str) -> bool:
    return f"“{option}”" in text or f"„{option}“" in text
