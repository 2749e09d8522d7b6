"""chrF and chrF++ as sacrebleu defines them, counted in compiled loops.

sacrebleu returns scores and no sums, and computes the n-grams of a reply again for every reference. So this module
counts them once a text, and stores them as sorted numbers: this needs little memory, and two texts are compared in one
pass. The tests compare both levels with sacrebleu in every setting. An empty reference among others is left out.

For each order the sums are the n-grams of the reply, those of the best reference and the matches.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels.kernel import compiled
from refaug.metrics.base import Floats, Indexes, Level, Metric, Prepared, References
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.single_reference import DistinctTexts, prepare_texts

_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")  # what chrF++ separates from words
_EPSILON: Final = 1e-16

Vocabularies = tuple[dict[str, int], ...]  # n-gram → number, one for each order


class CountedNgrams(NamedTuple):
    """Texts as n-grams: with i = text · orders + order, they are `numbers[ends[i]:ends[i + 1]]`, in rising order."""

    numbers: NDArray[np.int32]
    counts: NDArray[np.int32]
    ends: NDArray[np.int64]  # (texts · orders + 1,)
    totals: NDArray[np.int64]  # (texts, orders) all n-grams, including those without a number


@dataclass(frozen=True, kw_only=True)
class PreparedChrf(Prepared):
    """References as n-grams; those of item i are the texts `texts[offsets[i]:offsets[i + 1]]`."""

    vocabularies: Vocabularies
    counted: CountedNgrams
    offsets: Indexes
    texts: Indexes


class Chrf(Metric):
    """An F score of character n-grams, and of word n-grams where `word-order` is above 0."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = info
        self.settings = dict(settings)
        self._character_order = int(settings["char-order"])
        self._word_order = int(settings["word-order"])
        self._factor = float(settings["beta"]) ** 2
        self._epsilon = settings["eps"] == "yes"
        self._white_space = settings["space"] == "yes"
        self._lower_case = settings["case"] == "lc"
        self._gold_only = settings["refs"] == "gold"
        names = [f"char_{n + 1}" for n in range(self._character_order)]
        names += [f"word_{n + 1}" for n in range(self._word_order)]
        self._orders = len(names)
        self.columns = tuple(f"{name}_{what}" for name in names for what in ("reply", "reference", "matches"))

    def versions(self) -> Mapping[str, str]:
        """Return nothing: no package computes the score."""
        return {}

    # ── n-grams ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _ngrams(self, text: str) -> Iterator[Counter[str]]:
        """Yield the n-grams of a text with their counts, order by order."""
        text = text.lower() if self._lower_case else text
        characters = text if self._white_space else "".join(text.split())
        for n in range(1, self._character_order + 1):
            yield Counter([characters[at : at + n] for at in range(len(characters) - n + 1)])
        words = _words(text) if self._word_order else []
        for n in range(1, self._word_order + 1):
            yield Counter([" ".join(words[at : at + n]) for at in range(len(words) - n + 1)])

    def _count(self, texts: Sequence[str], number: Callable[[int, Counter[str]], dict[int, int]]) -> CountedNgrams:
        """Count the n-grams of texts; `number` gives them numbers, or drops them."""
        numbers, counts = array("i"), array("i")
        ends = np.zeros(len(texts) * self._orders + 1, dtype=np.int64)
        totals = np.zeros((len(texts), self._orders), dtype=np.int64)
        for at, text in enumerate(texts):
            for n, ngrams in enumerate(self._ngrams(text)):
                numbered = number(n, ngrams)
                ordered = sorted(numbered)
                numbers.extend(ordered)
                counts.extend(map(numbered.__getitem__, ordered))
                ends[at * self._orders + n + 1] = len(numbers)
                totals[at, n] = ngrams.total()
        return CountedNgrams(np.array(numbers, dtype=np.int32), np.array(counts, dtype=np.int32), ends, totals)

    # ── texts to sums ─────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, references: Sequence[References]) -> PreparedChrf:
        """Count the n-grams of every distinct text once."""
        chosen = prepare_texts(references, gold_only=self._gold_only, read=lambda texts: texts, usable=_has_text)
        vocabularies = tuple(dict[str, int]() for _ in range(self._orders))

        def number(n: int, ngrams: Counter[str]) -> dict[int, int]:
            numbers = vocabularies[n]
            return {numbers.setdefault(ngram, len(numbers)): count for ngram, count in ngrams.items()}

        return PreparedChrf(
            items=chosen.items,
            problems=chosen.problems,
            vocabularies=vocabularies,
            counted=self._count(chosen.read, number),
            offsets=chosen.offsets,
            texts=chosen.numbers,
        )

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return the counts beside the reference with the best F, the first of several that are equally good."""
        assert isinstance(prepared, PreparedChrf)

        def number(n: int, ngrams: Counter[str]) -> dict[int, int]:
            numbers = prepared.vocabularies[n]
            return {numbers[ngram]: count for ngram, count in ngrams.items() if ngram in numbers}

        distinct = DistinctTexts.of(replies)
        rows = np.full((len(reply_places), len(self.columns)), np.nan)
        _best_rows(
            self._count(distinct.texts, number),
            prepared.counted,
            prepared.offsets,
            prepared.texts,
            distinct.numbers[reply_places],
            np.asarray(item_places, dtype=np.int64),
            self._factor,
            self._epsilon,
            rows,
        )
        return rows

    def values(self, sums: Floats, level: Level) -> Floats:
        """Return the F score of every row."""
        del level
        flat = np.ascontiguousarray(sums, dtype=np.float64).reshape(-1, len(self.columns))
        out = np.empty(len(flat), dtype=np.float64)
        _score_rows(flat, self._factor, self._epsilon, out)
        return out.reshape(sums.shape[:-1])


def _words(text: str) -> list[str]:
    """Return words with one punctuation mark separated from the end, or else from the beginning, as chrF++.py does."""
    words: list[str] = []
    for word in text.split():
        if len(word) == 1:
            words.append(word)
        elif word[-1] in _PUNCTUATION:
            words += (word[:-1], word[-1])
        elif word[0] in _PUNCTUATION:
            words += (word[0], word[1:])
        else:
            words.append(word)
    return words


def _has_text(texts: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([bool(text) and not text.isspace() for text in texts], dtype=np.bool_)


@compiled
def _best_rows(
    replies: CountedNgrams,
    references: CountedNgrams,
    offsets: Indexes,
    texts: Indexes,
    reply_places: Indexes,
    item_places: Indexes,
    factor: float,
    epsilon: bool,
    rows: Floats,
) -> None:
    """Write the counts of each row beside its best reference; a row whose item has no reference stays as it is."""
    orders = replies.totals.shape[1]
    counts = np.empty(3 * orders)
    for row in range(len(reply_places)):
        best = -1.0
        for place in range(offsets[item_places[row]], offsets[item_places[row] + 1]):
            for n in range(orders):
                in_reference = references.totals[texts[place], n]
                # As in sacrebleu: n-grams of an order that the reference lacks do not count against the reply.
                counts[3 * n] = replies.totals[reply_places[row], n] if in_reference > 0 else 0
                counts[3 * n + 1] = in_reference
                counts[3 * n + 2] = _matches(replies, references, reply_places[row], texts[place], n)
            score = _f_score(counts, factor, epsilon)
            if score > best:
                best = score
                rows[row, :] = counts


@compiled
def _matches(replies: CountedNgrams, references: CountedNgrams, reply: int, reference: int, n: int) -> int:
    """Count the n-grams of one order that two texts share; both are in rising order, so one pass is enough."""
    orders = replies.totals.shape[1]
    i, i_end = replies.ends[reply * orders + n], replies.ends[reply * orders + n + 1]
    j, j_end = references.ends[reference * orders + n], references.ends[reference * orders + n + 1]
    shared = 0
    while i < i_end and j < j_end:
        if replies.numbers[i] < references.numbers[j]:
            i += 1
        elif replies.numbers[i] > references.numbers[j]:
            j += 1
        else:
            shared += min(replies.counts[i], references.counts[j])
            i += 1
            j += 1
    return shared


@compiled
def _f_score(counts: Floats, factor: float, epsilon: bool) -> float:
    """Return F from counts, in sacrebleu's order of arithmetic, so that the same reference is best."""
    orders = len(counts) // 3
    smoothed, used, precision, recall = 0.0, 0, 0.0, 0.0
    for n in range(orders):
        in_reply, in_reference, matches = counts[3 * n], counts[3 * n + 1], counts[3 * n + 2]
        p = matches / in_reply if in_reply > 0 else _EPSILON
        r = matches / in_reference if in_reference > 0 else _EPSILON
        below = factor * p + r
        smoothed += (1.0 + factor) * p * r / below if below > 0 else _EPSILON
        if in_reply > 0 and in_reference > 0:
            precision += p
            recall += r
            used += 1
    if epsilon:
        return smoothed / orders
    if precision + recall == 0:
        return 0.0
    precision, recall = precision / used, recall / used
    return (1.0 + factor) * precision * recall / (factor * precision + recall)


@compiled
def _score_rows(sums: Floats, factor: float, epsilon: bool, out: Floats) -> None:
    for row in range(len(sums)):
        out[row] = np.nan if np.isnan(sums[row, 0]) else _f_score(sums[row], factor, epsilon)
