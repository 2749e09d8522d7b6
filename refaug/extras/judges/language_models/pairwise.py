"""A judge that says which of two replies is better, asked in both orders.

A verdict counts for a reply only if it is the same in both orders. If the orders disagree, the pair depends on the
order, and counts as half a win for either, as a tie does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from refaug.bots.endpoint.chat import ChatAnswer, ChatRequest
from refaug.bots.endpoint.client import Outcome
from refaug.core.errors import BadInput
from refaug.core.records import Item
from refaug.extras.judges.language_models.answer_reading import TIE, read_choice
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.pointwise import NOT_REPRODUCIBLE, problem_of_fault
from refaug.extras.judges.language_models.rubric import VERSION, Rubric, pair_messages
from refaug.metrics.base import Floats, Problem
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.resampling import Estimate, bootstrap

_MAX_TOKENS: Final = 64
_TURNS: Final = 10  # as the metric `judge` by default
_FIRST_PLACE: Final = "A"


class PairVerdict(StrEnum):
    """What a judge says of a pair."""

    FIRST = "first"  # the first system has the better reply, in both orders
    SECOND = "second"
    TIE = "tie"  # in both orders
    ORDER = "order"  # the verdict depends on the order


_WORTH: Final[Mapping[PairVerdict, float]] = {
    PairVerdict.FIRST: 1.0,
    PairVerdict.SECOND: 0.0,
    PairVerdict.TIE: 0.5,
    PairVerdict.ORDER: 0.5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPair:
    """Two replies to one dialogue."""

    id: str
    turns: tuple[str, ...]
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """The verdict on a pair, or the problem that there is none; `choices` are A, B or tie in either order."""

    id: str
    verdict: PairVerdict | None
    problem: Problem | None = None
    choices: tuple[str, str] | None = None  # None: the judge was not asked


class PairwiseJudge:
    """A language model behind an endpoint that compares replies."""

    def __init__(self, asking: Asking, rubric: Rubric, *, seed: int = 1, occasion: str = "") -> None:
        self.asking, self.rubric, self._seed, self._occasion = asking, rubric, seed, occasion
        self._fingerprints = set[str]()

    def choices(self, asked: Sequence[tuple[Sequence[str], str, str]]) -> list[str | Problem]:
        """Return A, B or tie for each dialogue with a reply in place A and one in place B, or the problem."""
        outcomes = self.asking.ask([self._request(turns, shown, other) for turns, shown, other in asked])
        self._fingerprints |= {outcome.fingerprint for outcome in outcomes if isinstance(outcome, ChatAnswer)}
        return [_choice(outcome) for outcome in outcomes]

    def _request(self, turns: Sequence[str], shown: str, other: str) -> ChatRequest:
        messages = pair_messages(self.rubric, turns[-_TURNS:], shown, other)
        return ChatRequest(messages=messages, max_tokens=_MAX_TOKENS, seed=self._seed, draw=self._occasion)

    def compare(self, pairs: Sequence[ReplyPair]) -> list[JudgedPair]:
        """Judge every pair in both orders; equal replies are a tie, and an empty one loses, without a question."""
        asked = [pair for pair in pairs if _unasked_verdict(pair) is None]
        orders = [((pair.turns, pair.first, pair.second), (pair.turns, pair.second, pair.first)) for pair in asked]
        choices = self.choices([question for both in orders for question in both])  # so that few lack an order
        judged = {
            id(pair): _judged(pair, before, after)
            for pair, before, after in zip(asked, choices[::2], choices[1::2], strict=True)
        }
        return [
            judged[id(pair)] if id(pair) in judged else JudgedPair(id=pair.id, verdict=_unasked_verdict(pair))
            for pair in pairs
        ]

    @property
    def signature(self) -> Signature:
        """How the pairs were judged."""
        names = sorted(name for name in self._fingerprints if name)
        fingerprint = names[0] if len(names) == 1 == len(self._fingerprints) else "mixed" if names else "none"
        settings = {
            "rubric": self.rubric.spec,
            "orders": "both",
            "seed": str(self._seed),
            "judge": self.asking.endpoint.name,
            "model": self.asking.endpoint.model,
            "fingerprint": fingerprint,
            "answers": NOT_REPRODUCIBLE,
        }
        details = {"endpoint": self.asking.endpoint.content_hash, "questions": VERSION}
        return Signature(metric="judge-pairs", settings=settings, details=details)


def _choice(outcome: Outcome) -> str | Problem:
    return read_choice(outcome) if isinstance(outcome, ChatAnswer) else problem_of_fault(outcome)


def _unasked_verdict(pair: ReplyPair) -> PairVerdict | None:
    if pair.first.strip() == pair.second.strip():
        return PairVerdict.TIE
    if not pair.second.strip():
        return PairVerdict.FIRST
    return None if pair.first.strip() else PairVerdict.SECOND


def _judged(pair: ReplyPair, before: str | Problem, after: str | Problem) -> JudgedPair:
    for choice in (before, after):
        if isinstance(choice, Problem):
            return JudgedPair(id=pair.id, verdict=None, problem=choice)
    assert isinstance(before, str)
    assert isinstance(after, str)
    verdicts = {
        (_FIRST_PLACE, "B"): PairVerdict.FIRST,
        ("B", _FIRST_PLACE): PairVerdict.SECOND,
        (TIE, TIE): PairVerdict.TIE,
    }
    return JudgedPair(id=pair.id, verdict=verdicts.get((before, after), PairVerdict.ORDER), choices=(before, after))


# ── Two systems ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class JudgedSystems:
    """Two systems, pair by pair."""

    systems: tuple[str, str]
    pairs: tuple[JudgedPair, ...]
    share: Estimate  # of wins of the first system, ties as half
    first_place: Estimate  # share of questions, among those with a choice, in which place A was chosen
    signature: Signature

    def counts(self) -> dict[str, int]:
        """Return how many pairs have each verdict."""
        verdicts = Counter(pair.verdict for pair in self.pairs)
        return {verdict.value: verdicts[verdict] for verdict in PairVerdict}

    def as_json(self) -> Mapping[str, Any]:
        """Return the shares, the counts, and every pair."""
        problems = Counter(pair.problem.code for pair in self.pairs if pair.problem is not None)
        return {
            "systems": list(self.systems),
            "share": self.share.value,
            "interval": _bounds(self.share),
            "verdicts": self.counts(),
            "problems": dict(problems),
            "first_place": self.first_place.value,
            "first_place_interval": _bounds(self.first_place),
            "signature": self.signature.full,
            "pairs": [
                {
                    "id": pair.id,
                    "verdict": pair.verdict.value if pair.verdict else None,
                    "choices": list(pair.choices) if pair.choices else None,
                    **({"problem": pair.problem.code, "message": pair.problem.message} if pair.problem else {}),
                }
                for pair in self.pairs
            ],
        }


def compare_systems(
    judge: PairwiseJudge, items: Sequence[Item], systems: tuple[str, str], *, draws: int, seed: int
) -> JudgedSystems:
    """Compare two systems on the items that both have a reply to."""
    first, second = systems
    pairs = [
        ReplyPair(id=each.id, turns=each.turns, first=each.replies[first], second=each.replies[second])
        for each in items
        if first in each.replies and second in each.replies and each.turns
    ]
    if not pairs:
        known = ", ".join(dict.fromkeys(name for each in items for name in each.replies))
        raise BadInput(f"no item has replies of both {first} and {second}", remedy=f"systems of these items: {known}")
    judged = judge.compare(pairs)
    worths = np.array([_WORTH[pair.verdict] for pair in judged if pair.verdict is not None])
    places = np.array(
        [
            np.mean([choice == _FIRST_PLACE for choice in decided])
            for pair in judged
            if pair.choices and (decided := [choice for choice in pair.choices if choice != TIE])
        ]
    )
    return JudgedSystems(
        systems=systems,
        pairs=tuple(judged),
        share=mean_estimate(worths, draws=draws, seed=seed),
        first_place=mean_estimate(places, draws=draws, seed=seed),
        signature=judge.signature,
    )


def mean_estimate(values: Floats, *, draws: int, seed: int) -> Estimate:
    """Return the mean with its interval over items; nothing where there are no values."""
    if not len(values):
        return Estimate(why="nothing was judged")
    rows = np.stack([values, np.ones(len(values))], axis=-1)
    return bootstrap({"mean": rows}, lambda sums: sums[..., 0] / sums[..., 1], draws=draws, seed=seed)["mean"].score


def _bounds(estimate: Estimate) -> list[float] | None:
    return None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]
