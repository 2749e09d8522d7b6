"""How a simulated person answers the form of a task: by what is true of its bots, or carelessly.

The truth is in points of one scale; a question with another scale is answered at the same place of that one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

import numpy as np

from refaug.core.errors import Usage
from refaug.evaluation.studies.questions import ATTENTION
from refaug.evaluation.studies.simulation.people import HASTE, Carelessness, sentence_of
from refaug.evaluation.studies.simulation.people_options import PeopleOptions

REFERENCES: Final = "references"  # the system of references that are rated: each is as good as its text says
_ATTENTIVE: Final = 0.99
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
            raise Usage(f"{self.least:g} to {self.most:g} is no scale", remedy="such as 1 to 7")

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

    def answers(self, task: Mapping[str, Any], bots: Mapping[str, str]) -> dict[Place, dict[str, object]]:
        """Return the answers to the form of a task by place; `bots` has the bot on each side."""
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
                if message["role"] == "bot":
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
    return all(answers.get(name) in values for name, values in question.get("show_if", {}).items())


def _quotes(text: str, option: str) -> bool:
    return f"“{option}”" in text or f"„{option}“" in text
