"""BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D as nlg-eval defines them, to its constants.

They differ from the metrics of the same names elsewhere, and so from those of `refaug.metrics`:

    BLEU     words between white space; no smoothing, but 1e-15 is added to matches and 1e-9 to counts
    ROUGE-L  words between single spaces; F with β = 1.2 of the best precision and the best recall, which may
             come from two references
    CIDEr    CIDEr-D with σ = 6 and idf from the references of the call, so that a single reply has 0

A text here is a list of words, and an item is a reply with its references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp, log, sqrt
from typing import Final

_ORDER: Final = 4
_SMALL, _TINY = 1e-9, 1e-15  # so that nothing is divided by 0, and 0 matches stay almost 0
_BETA: Final = 1.2
_SIGMA: Final = 6.0

Ngram = tuple[str, ...]


@dataclass(frozen=True)
class OverlapItem:
    """A reply with its references."""

    reply: str
    references: Sequence[str]


# ── BLEU ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def bleu(items: Sequence[OverlapItem], order: int = _ORDER) -> list[float]:
    """Return BLEU-1 to BLEU-`order` of all replies together."""
    matches, totals, reply_length, reference_length = [0] * order, [0] * order, 0, 0
    for case in items:
        reply = case.reply.split()
        references = [reference.split() for reference in case.references]
        reply_length += len(reply)
        reference_length += min((abs(len(words) - len(reply)), len(words)) for words in references)[1]
        for n in range(order):
            counts = _ngrams(reply, n + 1)
            most = Counter[Ngram]()
            for words in references:
                most |= _ngrams(words, n + 1)
            matches[n] += (counts & most).total()
            totals[n] += counts.total()
    ratio = (reply_length + _TINY) / (reference_length + _SMALL)
    penalty = exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, scores = 1.0, []
    for n in range(order):
        product *= (matches[n] + _TINY) / (totals[n] + _SMALL)
        scores.append(penalty * product ** (1 / (n + 1)))
    return scores


def _ngrams(words: Sequence[str], n: int) -> Counter[Ngram]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


# ── ROUGE-L ───────────────────────────────────────────────────────────────────────────────────────────────────────


def rouge_l(items: Sequence[OverlapItem]) -> float:
    """Return the mean ROUGE-L of the replies."""
    return sum(map(_rouge_l, items)) / len(items)


def _rouge_l(case: OverlapItem) -> float:
    reply = case.reply.split(" ")
    precision = recall = 0.0
    for reference in case.references:
        words = reference.split(" ")
        common = _common_length(reply, words)
        precision, recall = max(precision, common / len(reply)), max(recall, common / len(words))
    if precision == 0 or recall == 0:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for at, other in enumerate(second, start=1):
            diagonal, row[at] = row[at], diagonal + 1 if word == other else max(row[at], row[at - 1])
    return row[-1]


# ── CIDEr ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Weighted:
    """The tf-idf of a text's n-grams, their norms by order, and the text's length in pairs of words."""

    weights: list[dict[Ngram, float]]
    norms: list[float]
    length: int


def cider(items: Sequence[OverlapItem]) -> float:
    """Return the mean CIDEr-D of the replies, with idf from these references."""
    references = [[_all_ngrams(text) for text in case.references] for case in items]
    frequency = Counter[Ngram](chain.from_iterable(set().union(*texts) for texts in references))
    log_items = log(len(items))

    def weigh(counts: Counter[Ngram]) -> _Weighted:
        weights: list[dict[Ngram, float]] = [{} for _ in range(_ORDER)]
        for ngram, count in counts.items():
            weights[len(ngram) - 1][ngram] = count * (log_items - log(max(1, frequency[ngram])))
        norms = [sqrt(sum(weight * weight for weight in of_order.values())) for of_order in weights]
        return _Weighted(weights, norms, sum(count for ngram, count in counts.items() if len(ngram) == 2))

    total = 0.0
    for case, texts in zip(items, references, strict=True):
        reply = weigh(_all_ngrams(case.reply))
        total += sum(_cider_similarity(reply, weigh(counts)) for counts in texts) / len(texts)
    return 10 * total / len(items)


def _all_ngrams(text: str) -> Counter[Ngram]:
    words = text.split()
    return Counter(chain.from_iterable(_ngrams(words, n).elements() for n in range(1, _ORDER + 1)))


def _cider_similarity(reply: _Weighted, reference: _Weighted) -> float:
    """Return the mean over the orders of the clipped cosine, less for another length."""
    total = 0.0
    for n, weights in enumerate(reply.weights):
        norms = reply.norms[n] * reference.norms[n]
        if norms > 0:
            shared = reference.weights[n]
            total += (
                sum(min(weight, shared[ngram]) * shared[ngram] for ngram, weight in weights.items() if ngram in shared)
                / norms
            )
    return total / _ORDER * exp(-((reply.length - reference.length) ** 2) / (2 * _SIGMA**2))
