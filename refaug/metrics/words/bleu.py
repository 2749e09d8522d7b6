"""BLEU, multi-BLEU, ΔBLEU and υBLEU: one metric whose references have weights.

With every weight at 1 it is multi-reference BLEU, and the tests compare it with sacrebleu there. With h the reply and
r_j its references of weight w_j:

    credit_n   = Σ_i Σ_{g ∈ h_i} max_{j: g ∈ r_ij} w_ij · min(#g(h_i), #g(r_ij))       signed, never floored when stored
    possible_n = Σ_i Σ_{g ∈ h_i} max_j w_ij · #g(h_i)
    m_n        = max(0, credit_n) / w̄_n          matches in units of the item's weight, w̄_n = possible_n / ngrams_n
    p_n        = max(m_n, s_n) / ngrams_n        s_n: what the smoothing gives to an order without a match
    score      = penalty · (Π p_n)^(1/N)         0 when no order has any credit
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.kernels.kernel import compiled, quickest
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.base import (
    NO_GOLD,
    NO_POSITIVE_WEIGHT,
    NO_REFERENCE,
    Floats,
    Indexes,
    Level,
    Metric,
    Prepared,
    References,
    tokenizer_versions,
)
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.parameters import smoothing_of
from refaug.metrics.words import ngrams
from refaug.metrics.words.ngrams import PackedTexts, Vocabulary, new_vocabulary, pack, pack_known

_MATCHING: Final = {
    "galley15": ngrams.BEST_PRODUCT,
    "galley-fork": ngrams.BEST_APART,
    "sacrebleu-raw": ngrams.BEST_APART,
    "tsuta20": ngrams.BEST_PRODUCT_FLOORED,
}
_PENALTY: Final = {
    "closest": ngrams.CLOSEST,
    "closest-positive": ngrams.CLOSEST_POSITIVE,
    "average": ngrams.AVERAGE,
    "gold": ngrams.GOLD,
    "none": ngrams.NO_LENGTH,
}
_NONE, _FLOOR, _ADD_K, _EXP = 0, 1, 2, 3
_SMOOTHING: Final = {"none": _NONE, "floor": _FLOOR, "epsilon": _FLOOR, "add-k": _ADD_K, "exp": _EXP}


_OWN_TOKENIZERS: Final = frozenset({"word", "char", "13a", "intl", "none"})


@dataclass(frozen=True, kw_only=True)
class PreparedBleu(Prepared):
    """References as token numbers, in the columns of `ngrams`; a text that several items share is stored once."""

    vocabulary: Vocabulary
    ids: NDArray[np.int32]
    spans: Indexes
    weights: Floats
    offsets: Indexes
    golds: Indexes


class Bleu(Metric):
    """All BLEU metrics of the catalogue: they differ only in the references that they get."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = info
        self.tokenizer, self.lower_case, case = tokenizer_and_case(info.name, settings)
        self.settings = {**settings, "case": case, "tok": self.tokenizer.name}
        self.order = int(settings["n"])
        self.variant = settings.get("variant", "galley15")
        self.penalty = settings["bp"]
        self.smoothing, self.smooth_value = smoothing_of(settings["smooth"])
        self.effective = settings["eff"]
        self.columns = tuple(
            [f"{what}_{n}" for what in ("credit", "possible", "ngrams") for n in range(1, self.order + 1)]
            + ["reply_length", "reference_length"]
        )

    @property
    def is_shared(self) -> bool:
        """Whether the tokenizer is one of those that need neither a file nor a library."""
        return self.tokenizer.name in _OWN_TOKENIZERS

    def versions(self) -> Mapping[str, str]:
        """Return the tokenizer's."""
        return tokenizer_versions(self.tokenizer)

    # ── references ────────────────────────────────────────────────────────────────────────────────────────────────

    def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of many texts, in the case of the settings."""
        return self.tokenizer.tokenize_batch([text.lower() for text in texts] if self.lower_case else texts)

    def prepare(self, references: Sequence[References]) -> PreparedBleu:
        """Tokenise every distinct text once; a text without tokens is not a reference."""
        number_of = new_vocabulary()
        texts = np.array([number_of[text] for of_item in references for text in of_item.texts], dtype=np.int64)
        tokens = self.tokenize(list(number_of))
        if unseen := {text for text, words in zip(number_of, tokens, strict=True) if not words and text.strip()}:
            return self.prepare([of_item.without(unseen) for of_item in references])
        weights = np.array([weight for of_item in references for weight in of_item.weights], dtype=np.float64)
        golds = np.array([of_item.gold for of_item in references], dtype=np.int64)
        return self.prepare_tokens(tokens, [len(of_item.texts) for of_item in references], texts, weights, golds)

    def prepare_tokens(
        self,
        tokens: Sequence[Sequence[str]],
        sizes: Sequence[int],
        texts: NDArray[np.int64],
        weights: Floats,
        golds: NDArray[np.int64],
    ) -> PreparedBleu:
        """Prepare items of so many references each, whose texts are rows of these tokens; `golds` -1: no gold."""
        vocabulary = new_vocabulary()
        ids, text_offsets = pack(tokens, vocabulary)
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        spans = np.stack([text_offsets[:-1], text_offsets[1:]], axis=1)[texts]
        no_tokens = _none_per_item(spans[:, 1] > spans[:, 0], offsets)
        problems = {int(item): NO_REFERENCE for item in np.flatnonzero(no_tokens)}
        worthless = _none_per_item(weights > 0, offsets) & ~no_tokens
        problems |= {int(item): NO_POSITIVE_WEIGHT for item in np.flatnonzero(worthless)}
        if self.penalty == "gold":
            missing = ~no_tokens & ~worthless & (golds < 0)
            problems |= {int(item): NO_GOLD for item in np.flatnonzero(missing)}
        return PreparedBleu(
            items=len(sizes),
            problems=problems,
            vocabulary=vocabulary,
            ids=ids,
            spans=spans,
            weights=weights,
            offsets=offsets,
            golds=golds,
        )

    # ── replies ───────────────────────────────────────────────────────────────────────────────────────────────────

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return credits, the possible credits, n-grams and lengths of each reply."""
        return self.statistics_of_tokens(self.tokenize(replies), prepared, reply_places, item_places)

    def statistics_of_tokens(
        self, replies: Sequence[Sequence[str]], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return the statistics of replies that are tokens already."""
        assert isinstance(prepared, PreparedBleu)
        assert np.all((reply_places >= 0) & (reply_places < len(replies))), "the kernel trusts its indexes"
        assert np.all((item_places >= 0) & (item_places < prepared.items)), "the kernel trusts its indexes"
        packed = pack_known(replies, prepared.vocabulary)
        reply_places = np.asarray(reply_places, dtype=np.int64)
        item_places = np.asarray(item_places, dtype=np.int64)
        if not prepared.problems:
            return self._count(packed, prepared, reply_places, item_places)
        rows = np.full((len(reply_places), len(self.columns)), np.nan)
        is_sound = ~np.isin(item_places, list(prepared.problems))
        rows[is_sound] = self._count(packed, prepared, reply_places[is_sound], item_places[is_sound])
        return rows

    def _count(
        self, packed: PackedTexts, prepared: PreparedBleu, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        counted = np.empty((len(reply_places), len(self.columns)))

        def count_steps() -> int:
            return self.order * ngrams.count_tokens(
                packed[1], prepared.spans, prepared.offsets, reply_places, item_places
            )

        quickest(ngrams.credit_rows, count_steps)(
            *packed,
            prepared.ids,
            prepared.spans,
            prepared.weights,
            prepared.offsets,
            prepared.golds,
            reply_places,
            item_places,
            self.order,
            _MATCHING[self.variant],
            _PENALTY[self.penalty],
            len(prepared.vocabulary),
            counted,
        )
        return counted

    # ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────

    def values(self, sums: Floats, level: Level) -> Floats:
        """Return the score of every row."""
        return self._score(sums, level)[..., -1]

    def parts(self, sums: Floats, level: Level) -> dict[str, Any]:
        """Return credits, totals, precisions, lengths and penalty of one score."""
        n = self.order
        scored = self._score(sums, level)
        totals = dict(zip(self.columns, sums.tolist(), strict=True))
        return {
            **{what: [totals[f"{what}_{i}"] for i in range(1, n + 1)] for what in ("credit", "possible", "ngrams")},
            "precisions": scored[:n].tolist(),
            "penalty": float(scored[n]),
            "reply_length": totals["reply_length"],
            "reference_length": totals["reference_length"],
        }

    def _score(self, sums: Floats, level: Level) -> Floats:
        """Return precisions, penalty and score of every row of sums: (…, columns) → (…, order + 2)."""
        flat = np.ascontiguousarray(sums, dtype=np.float64).reshape(-1, len(self.columns))
        out = np.empty((len(flat), self.order + 2), dtype=np.float64)
        effective = level is not Level.CORPUS if self.effective == "auto" else self.effective == "yes"
        quickest(_score_rows, lambda: flat.size)(
            flat,
            self.order,
            _SMOOTHING[self.smoothing],
            self.smooth_value,
            effective,
            self.variant == "sacrebleu-raw",
            self.penalty == "none",
            out,
        )
        return out.reshape((*sums.shape[:-1], self.order + 2))

    # ── credits ───────────────────────────────────────────────────────────────────────────────────────────────────

    def credits(self, reply: str, references: References) -> list[dict[str, Any]]:
        """Return which n-gram of a reply is credited to which reference, with what weight, by falling credit."""
        hypothesis = self.tokenize([reply])[0]
        counted = [_all_ngrams(tokens, self.order) for tokens in self.tokenize(references.texts)]
        credit_records = []
        for ngram, count in _all_ngrams(hypothesis, self.order).items():
            matches = [
                (references.weights[j], min(count, counts[ngram]), j)
                for j, counts in enumerate(counted)
                if ngram in counts
            ]
            if matches:
                credit_records.append(self._credit(ngram, count, matches))
        return sorted(credit_records, key=lambda credit: (credit["order"], -credit["credit"], credit["ngram"]))

    def words_of(self, reply: str) -> list[str]:
        """Return the tokens of the reply."""
        return self.tokenize([reply])[0]

    def _credit(self, ngram: tuple[str, ...], count: int, matches: list[tuple[float, int, int]]) -> dict[str, Any]:
        """Return the credit by the reference of the largest product, or largest weight; the first one on a tie."""
        if _MATCHING[self.variant] == ngrams.BEST_APART:
            weight, _, reference = max(matches, key=lambda match: (match[0], -match[2]))
            matched = max(match[1] for match in matches)
        else:
            weight, matched, reference = max(matches, key=lambda match: (match[0] * match[1], -match[2]))
        credit = weight * matched
        return {
            "ngram": " ".join(ngram),
            "order": len(ngram),
            "in_reply": count,
            "matched": matched,
            "reference": reference,
            "weight": weight,
            "credit": max(0.0, credit) if self.variant == "tsuta20" else credit,
        }


def tokenizer_and_case(metric: str, settings: Mapping[str, str]) -> tuple[Tokenizer, bool, str]:
    """Return the tokenizer, whether texts are lower-cased before it, and the resulting value of `case`."""
    tokenizer = get_tokenizer(settings["tok"])
    lowers = tokenizer.name == "word"
    if lowers and settings["case"] == "mixed":
        raise Usage(f"{metric}: tok=word is lower-case by itself", remedy="case=lc, or another tokenizer: 13a, intl")
    case = settings["case"] if settings["case"] != "auto" else "lc" if lowers else "mixed"
    return tokenizer, case == "lc" and not lowers, case


def _none_per_item(flags: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each item whether none of its references has the flag."""
    counts = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(counts[offsets[1:]] == counts[offsets[:-1]])


def _all_ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """Return all n-grams up to an order with their counts, in the order of the text."""
    return Counter(tuple(tokens[at : at + n]) for n in range(1, order + 1) for at in range(len(tokens) - n + 1))


@compiled
def _score_rows(
    sums: Floats,
    order: int,
    smoothing: int,
    smooth_value: float,
    effective: bool,
    raw: bool,
    no_penalty: bool,
    out: Floats,
) -> None:
    """Compute precisions, penalty and score, row by row; credits are floored at 0 here, per order, after summing."""
    for row in range(sums.shape[0]):
        reply_length, reference_length = sums[row, 3 * order], sums[row, 3 * order + 1]
        out[row, :] = np.nan if np.isnan(reply_length) else 0.0
        if np.isnan(reply_length):
            continue
        out[row, order] = 1.0
        if not no_penalty and reply_length < reference_length:
            out[row, order] = math.exp(1.0 - reference_length / reply_length) if reply_length > 0 else 0.0
        if _has_credit(sums[row], order):
            used = _precisions(sums[row], order, smoothing, smooth_value, raw, out[row])
            out[row, order + 1] = out[row, order] * _geometric_mean(out[row, : used if effective else order])


@compiled
def _has_credit(sums: Floats, order: int) -> bool:
    """Say whether any n-gram has a credit above 0; np.any would load the whole compiler with the compiled loop."""
    largest = 0.0
    for n in range(order):
        largest = max(largest, sums[n])
    return largest > 0


@compiled
def _precisions(sums: Floats, order: int, smoothing: int, smooth_value: float, raw: bool, out: Floats) -> int:
    """Fill in the precisions, and return the number of orders for which the reply is long enough."""
    unmatched = 1.0  # doubled by every order without a match: the exp method
    for n in range(order):
        total, possible = sums[2 * order + n], sums[order + n]
        matches = max(0.0, sums[n])
        if raw:
            total = possible  # the fork smooths weighted sums as they are
        elif total > 0:
            matches = min(total, matches * total / possible)  # rounding must not make more matches than n-grams
        added = smooth_value if smoothing == _ADD_K and n > 0 else 0.0
        if total + added <= 0:
            return n
        least = 0.0
        if smoothing == _FLOOR:
            least = smooth_value
        elif smoothing == _EXP:
            least = 0.5 / unmatched
        if matches == 0:
            unmatched *= 2.0
        elif raw:
            least = 0.0
        out[n] = max(matches + added, least) / (total + added)
    return order


@compiled
def _geometric_mean(values: Floats) -> float:
    """Return the geometric mean; 0 when a value is 0."""
    logs = 0.0
    for factor in values:
        if factor <= 0:
            return 0.0
        logs += math.log(factor)
    return float(math.exp(logs / values.size))
