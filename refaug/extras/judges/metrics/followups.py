"""The metrics `followup` and `followup-endpoint`: which sayings are likely after a reply (Mehri and Eskenazi 2020).

A person who likes a reply goes on differently from one whom it confuses. A language model gives the probability of
each follow-up after the context and the reply. The score is the mean log p a piece over those that speak for the reply,
less the mean over those that speak against it, in nats; no piece counts less than −20. An empty reply is never shown to
the model: it gets −20, the least score.

The method is that of the paper's FED metric with one set of follow-ups; model, follow-ups and figures are not, so a
score is named by the model that ran.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np

from refaug.core.errors import BadInput, NotFound, Usage
from refaug.extras.judges.metrics.likelihood import Context, PieceLikelihoods
from refaug.metrics.base import NO_UTTERANCE, Floats, Problem, References
from refaug.metrics.models.model_scores import ModelScores
from refaug.metrics.models.unreferenced import LEAST_OF_A_PIECE

DEFAULT: Final = "default"
_FOR: Final = (
    "That is a good point, tell me more about it.",
    "I had not thought of it like that, how nice.",
    "It is easy to talk with you.",
    "Yes, that is just what I wanted to know.",
)
_AGAINST: Final = (
    "Sorry, I have no idea what you mean.",
    "That has nothing to do with what I said.",
    "You have said that before.",
    "Let us stop here, this leads nowhere.",
)
_LINE: Final = "\n"
_SIGNS: Final = ("+", "-")
_MOST_FOLLOW_UPS: Final = 200
_MOST_BYTES: Final = 1 << 20
_TURN_END: Final = "\x1e"
_MOST_TURNS: Final = 64
NO_LIKELIHOOD: Final = Problem("no_likelihood", "the endpoint gave no log-probabilities for one of the follow-ups")


@dataclass(frozen=True, kw_only=True)
class FollowUps:
    """What may be said after a reply: for it and against it."""

    name: str
    texts_for: tuple[str, ...]
    texts_against: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, those for the reply first."""
        return (*self.texts_for, *self.texts_against)

    @property
    def spec(self) -> str:
        """The name with a hash of the texts and their signs, for signatures."""
        signed = [*("+" + text for text in self.texts_for), *("-" + text for text in self.texts_against)]
        return f"{self.name}#{hashlib.sha256(_LINE.join(signed).encode()).hexdigest()[:12]}"


def find_follow_ups(text: str) -> FollowUps:
    """Return the default set, that of a file, or what a signature has: `name#hash`."""
    named, _, content = text.partition("#")
    found = FollowUps(name=DEFAULT, texts_for=_FOR, texts_against=_AGAINST) if named == DEFAULT else _read(named)
    if content and found.spec.partition("#")[2] != content:
        raise BadInput(
            f"the follow-ups {named} are {found.spec}, not {text}: they have changed since",
            remedy="the file as it was, or its name alone",
        )
    return found


def _read(named: str) -> FollowUps:
    """Read a file with a follow-up a line, each behind its sign; empty lines do not count."""
    try:
        with Path(named).open("rb") as file:
            lines = file.read(_MOST_BYTES).decode("utf-8").splitlines()
    except OSError as error:
        raise NotFound(
            f"there is no file of follow-ups {named!r}: {error.strerror}",
            remedy=f"{DEFAULT}, or the path of a text file",
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{named} is not text in UTF-8", remedy="a text file with a follow-up a line") from error
    by_sign: dict[str, list[str]] = {sign: [] for sign in _SIGNS}
    for number, line in enumerate(lines, 1):
        if not (stripped := line.strip()):
            continue
        said = stripped[1:].strip()
        if stripped[0] not in by_sign or not said:
            raise BadInput(
                f"{named}, line {number}: {stripped[:40]!r} is not a follow-up with a sign",
                remedy="+ in front of what speaks for a reply, - of what speaks against it",
            )
        by_sign[stripped[0]].append(said)
    if missing := next((sign for sign in _SIGNS if not by_sign[sign]), None):
        raise BadInput(
            f"{named} has no follow-up with {missing}", remedy="at least one with + and one with -, each on its line"
        )
    if (count := sum(map(len, by_sign.values()))) > _MOST_FOLLOW_UPS:
        raise BadInput(f"{named} has {count:,} follow-ups", remedy=f"at most {_MOST_FOLLOW_UPS}")
    plus, minus = (tuple(by_sign[sign]) for sign in _SIGNS)
    return FollowUps(name=Path(named).name, texts_for=plus, texts_against=minus)


class FollowUpModel(Protocol):
    """A source of likelihoods: a VHRED, or a language model behind an endpoint."""

    @property
    def spec(self) -> str:
        """The name and content of the model, for signatures."""

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[PieceLikelihoods]:
        """Return those of the pieces of each text after its context; of no pieces where there is none."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the likelihoods so far."""


class FollowedReplies(ModelScores[FollowUpModel]):
    """How much likelier the follow-ups that speak for a reply are; without a model there are no scores."""

    least = LEAST_OF_A_PIECE
    turns = _MOST_TURNS
    turn_separator = _TURN_END
    _follow_ups: FollowUps | None = None

    @property
    def model(self) -> str:
        """The name of the model, as specifications and signatures write it."""
        if not self.settings["lm"]:
            raise self.info.models[0].missing(self.info.name)
        return self.settings["lm"]

    def with_model(self, model: FollowUpModel, follow_ups: FollowUps) -> Self:
        """Return the metric with this model and these follow-ups, which the signature names."""
        bound = self.bound(model, {"lm": model.spec, "followups": follow_ups.spec})
        bound._follow_ups = follow_ups  # noqa: SLF001
        return bound

    @property
    def questions(self) -> int:
        """The follow-ups that the model is asked about after each reply."""
        sayings = self._follow_ups or find_follow_ups(self.settings["followups"])
        return len(sayings.texts)

    def cost(self, replies: Floats, references: Floats) -> Floats:
        """Return an upper bound of the units of work of each reply: each follow-up is read after it."""
        count = len(_FOR) + len(_AGAINST) if self._follow_ups is None else len(self._follow_ups.texts)
        return super().cost(replies, references) * (count / (len(_FOR) + len(_AGAINST)))

    def part_of(self, references: References) -> Context | Problem:
        """Return the turns before the replies."""
        return tuple(turn for turn in (references.utterance or "").split(_TURN_END) if turn.strip()) or NO_UTTERANCE

    def scores_of(self, source: FollowUpModel, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return the score of each reply after its turns."""
        if self._follow_ups is None:
            raise Usage("no follow-ups are read", remedy=f"followups={DEFAULT}, or the path of a text file")
        said = self._follow_ups
        logs = source.log_likelihoods([((*turns, reply), text) for turns, reply in asked for text in said.texts])
        return np.array(
            [
                score_of(logs[at : at + len(said.texts_for)], logs[at + len(said.texts_for) : at + len(said.texts)])
                for at in range(0, len(logs), len(said.texts))
            ],
            np.float64,
        )

    def undefined(self) -> Problem:
        """Return the meaning of a row without a score."""
        return NO_LIKELIHOOD


def score_of(logs_for: Sequence[PieceLikelihoods], logs_against: Sequence[PieceLikelihoods]) -> float:
    """Return the score, from the likelihoods of the follow-ups; NaN where one has no pieces."""
    if not all(logs.pieces for logs in (*logs_for, *logs_against)):
        return float("nan")
    of_for, of_against = (np.mean([logs.mean for logs in side]) for side in (logs_for, logs_against))
    return float(of_for - of_against)
