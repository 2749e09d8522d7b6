"""Weighted BLEU written down once more, slowly: counters over lists of tokens, one n-gram after the other.

It was written from the published formulas alone; the tests hold metrics/words/bleu.py against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, log

Ngrams = Counter[tuple[str, ...]]

VARIANTS = ("galley15", "galley-fork", "tsuta20", "sacrebleu-raw")
PENALTIES = ("closest", "closest-positive", "average", "gold", "none")
SMOOTHINGS = {"none": 0.0, "floor": 0.1, "add-k": 1.0, "exp": 0.0, "epsilon": 1e-15}


@dataclass(frozen=True, kw_only=True)
class PlainReference:
    """One reference as tokens, what it is worth, and whether it is the gold."""

    tokens: Sequence[str]
    weight: float = 1.0
    is_gold: bool = False


@dataclass(frozen=True, kw_only=True)
class PlainBleu:
    """The settings of a score, and the score of sums under them."""

    n: int = 2
    variant: str = "galley15"
    smooth: str = "exp"
    value: float = 1.0
    penalty: str = "closest"
    eff: str = "auto"

    def problem(self, references: Sequence[PlainReference]) -> str | None:
        """Why an item has no score; None where it has one."""
        if not any(one.tokens for one in references):
            return "no_reference"
        if not any(one.weight > 0 for one in references):
            return "no_positive_weight"
        if self.penalty == "gold" and not any(one.is_gold for one in references):
            return "no_gold"
        return None

    def sums(self, reply: Sequence[str], references: Sequence[PlainReference]) -> PlainSums:
        """What one reply adds: signed, unfloored."""
        best_weight = max(one.weight for one in references)
        credit, totals = [], []
        for order in range(1, self.n + 1):
            counts = ngrams(reply, order)
            theirs = [(ngrams(one.tokens, order), one.weight) for one in references]
            credit.append(fsum(self.credit_of(gram, count, theirs) for gram, count in counts.items()))
            totals.append(sum(counts.values()))
        return PlainSums(
            credit=tuple(credit),
            possible=tuple(best_weight * total for total in totals),
            totals=tuple(totals),
            length=len(reply),
            reference_length=self._reference_length(len(reply), references),
        )

    def credit_of(self, gram: tuple[str, ...], count: int, references: Sequence[tuple[Ngrams, float]]) -> float:
        """What one distinct n-gram of the reply, which stands there `count` times, is credited."""
        matches = [(min(count, counts[gram]), weight) for counts, weight in references if gram in counts]
        if not matches:
            return 0.0
        together = max(weight * matched for matched, weight in matches)
        if self.variant in ("galley-fork", "sacrebleu-raw"):
            return max(matched for matched, _ in matches) * max(weight for _, weight in matches)
        return max(0.0, together) if self.variant == "tsuta20" else together

    def _reference_length(self, length: int, references: Sequence[PlainReference]) -> float:
        """The length a reply is held to; a reference without tokens has length 0, as in sacrebleu."""
        if self.penalty == "average":
            return sum(len(one.tokens) for one in references) / len(references)
        if self.penalty == "gold":
            return next(len(one.tokens) for one in references if one.is_gold)
        if self.penalty == "none":
            return 0
        asked = [one for one in references if one.weight > 0 or self.penalty == "closest"]
        return min((len(one.tokens) for one in asked), key=lambda theirs: (abs(theirs - length), theirs))

    def precisions(self, sums: PlainSums) -> list[float | None]:
        """p_n of every order; None for an order of which there is no n-gram, not even a smoothed one."""
        if self.variant == "sacrebleu-raw":
            return self._smoothed([max(0.0, one) for one in sums.credit], sums.possible)
        matches = [
            max(0.0, credit) / (possible / total) if total else 0.0
            for credit, possible, total in zip(sums.credit, sums.possible, sums.totals, strict=True)
        ]
        return self._smoothed(matches, sums.totals)

    def _smoothed(self, matches: Sequence[float], totals: Sequence[float]) -> list[float | None]:
        precisions: list[float | None] = []
        halvings = 0
        for order, (matched, total) in enumerate(zip(matches, totals, strict=True), start=1):
            if self.smooth == "add-k" and order > 1:
                precisions.append((matched + self.value) / (total + self.value))
            elif not total:
                precisions.append(None)
            else:
                halvings += not matched
                precisions.append(self._at_least(matched, halvings + bool(matched)) / total)
        return precisions

    def _at_least(self, matched: float, halvings: int) -> float:
        """A match, or what the smoothing gives to none, if that is more.

        In whole matches it never is. Counted in units of the item's weight a match can be less than what is given to
        none, and must not then be worth less; only the fork's arithmetic lets that happen.
        """
        given = {"floor": self.value, "epsilon": self.value, "exp": 0.5**halvings}.get(self.smooth, 0.0)
        return matched if matched and self.variant == "sacrebleu-raw" else max(matched, given)

    def brevity(self, sums: PlainSums) -> float:
        """The factor for replies that are shorter than their references."""
        if self.penalty == "none" or sums.length >= sums.reference_length:
            return 1.0
        return exp(1 - sums.reference_length / sums.length) if sums.length else 0.0

    def score(self, sums: PlainSums, level: str) -> float:
        """The score at level `reply` or `corpus`."""
        if not any(credit > 0 for credit in sums.credit):
            return 0.0
        effective = self.eff == "yes" or (self.eff == "auto" and level == "reply" and self.variant != "tsuta20")
        kept = [one for one in self.precisions(sums) if one is not None or not effective]
        if not all(kept):
            return 0.0
        return self.brevity(sums) * exp(fsum(log(one or 0.0) for one in kept) / len(kept))


@dataclass(frozen=True, kw_only=True)
class PlainSums:
    """The sums of one reply, or of many."""

    credit: tuple[float, ...]
    possible: tuple[float, ...]
    totals: tuple[int, ...]
    length: int
    reference_length: float


def add(rows: Sequence[PlainSums]) -> PlainSums:
    """The sums of a corpus."""
    return PlainSums(
        credit=tuple(fsum(order) for order in zip(*(row.credit for row in rows), strict=True)),
        possible=tuple(fsum(order) for order in zip(*(row.possible for row in rows), strict=True)),
        totals=tuple(sum(order) for order in zip(*(row.totals for row in rows), strict=True)),
        length=sum(row.length for row in rows),
        reference_length=fsum(row.reference_length for row in rows),
    )


def ngrams(tokens: Sequence[str], order: int) -> Ngrams:
    """How often each n-gram of one order stands in a text."""
    return Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))
