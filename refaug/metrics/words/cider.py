"""CIDEr and CIDEr-D (Vedantam, Zitnick and Parikh 2015): n-grams weighted by how specific they are to an item.

With h_k(s) the count of n-gram k in text s, N items and df_k the number of items with k in any of their references:

    g_k(s)   = h_k(s) · log(N / max(1, df_k))
    cider    = 10/n Σ_n mean_j  g(c)·g(r_j) / (|g(c)| |g(r_j)|)
    cider-d  = 10/n Σ_n mean_j  min(g(c), g(r_j))·g(r_j) / (|g(c)| |g(r_j)|) · exp(−(length(c) − length(r_j))² / 2σ²)

The paper divides h by the number of n-grams. That cancels in cider; in cider-d it would determine what is clipped, and
the authors' released code, from which all published figures come, clips plain counts. So does this module. Their code
takes a length in pairs of words, this module in words: the differences are the same for all texts that are not empty.

**A score depends on the whole set**, through df and N: the same reply scores differently in another set. `for_set`
takes them from all of its items, and the full signature names them. A single item has no idf, since log(1/1) is 0: no
item of a set with fewer than two is scored.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from heapq import merge
from math import exp, fsum, log, sqrt
from typing import Final, NamedTuple

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics import single_reference
from refaug.metrics.base import Floats, Indexes, MeanMetric, Prepared, Problem, References
from refaug.metrics.metric_info import MetricInfo

TOO_FEW_ITEMS: Final = Problem("too_few_items", "CIDEr takes its idf from the set, and needs at least two items in it")

Ngram = tuple[str, ...]
Counts = list["Counter[Ngram]"]  # of one text, order by order

_SORTED_AT_ONCE: Final = 10_000


@dataclass(frozen=True)
class Idf:
    """The number of a set's items with each n-gram, and the resulting weights."""

    items: int
    frequency: Mapping[Ngram, int]

    def of(self, ngram: Ngram) -> float:
        """Return log(N / max(1, df))."""
        return log(max(1, self.items) / max(1, self.frequency.get(ngram, 0)))

    @property
    def sha256(self) -> str:
        """A hash of the weights, for signatures."""
        digest = hashlib.sha256(f"{self.items}\n".encode())
        for ngram in _in_order(list(self.frequency)):
            digest.update(f"{' '.join(ngram)}\t{self.frequency[ngram]}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


class WeightedNgrams(NamedTuple):
    """A text's n-grams of each order with their tf-idf, the norms of these, and the text's length in tokens."""

    values: list[dict[Ngram, float]]
    norms: list[float]
    length: int


@dataclass(frozen=True, kw_only=True)
class PreparedCider(Prepared):
    """The references of all items as tf-idf, with the idf for the replies."""

    idf: Idf
    texts: single_reference.PreparedTexts
    ngrams: Sequence[WeightedNgrams]


class Cider(MeanMetric):
    """The mean over an item's references of the cosine of tf-idf vectors, times 10."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        chosen = dict(settings)
        self._sigma = float(chosen["sigma"])
        self._clips = chosen["variant"] == "cider-d"
        if not self._clips and chosen["sigma"] != "6":
            raise Usage(f"{info.name}: sigma={chosen['sigma']} is only for variant=cider-d", remedy="leave sigma out")
        self._order = int(chosen["n"])
        self._words = single_reference.MetricTokenizer(info.name, chosen)
        self._gold_only = chosen["refs"] == "gold"
        self._idf: Idf | None = None
        self.info = info
        self.settings = {**chosen, **self._words.settings}

    def for_set(self, references: Sequence[References]) -> Cider:
        """Return the metric with the idf of this set."""
        texts = self._texts(references)
        copied = copy(self)
        copied._idf = self._idf_of(texts, [self._counts(tokens) for tokens in texts.read])  # noqa: SLF001
        return copied

    def versions(self) -> Mapping[str, str]:
        """Return the tokenizer's, and the idf once there is one."""
        return {**self._words.versions(), **({"idf": self._idf.sha256[:12]} if self._idf else {})}

    def prepare(self, references: Sequence[References]) -> PreparedCider:
        """Weigh every distinct text by the idf of the set, or else by that of these references."""
        texts = self._texts(references)
        counts = [self._counts(tokens) for tokens in texts.read]
        idf = self._idf or self._idf_of(texts, counts)
        scored = [item for item in range(texts.items) if item not in texts.problems]
        return PreparedCider(
            items=texts.items,
            problems=texts.problems if idf.items > 1 else {**dict.fromkeys(scored, TOO_FEW_ITEMS), **texts.problems},
            idf=idf,
            texts=texts,
            ngrams=[_weigh(of_text, idf) for of_text in counts],
        )

    def _texts(self, references: Sequence[References]) -> single_reference.PreparedTexts:
        return single_reference.prepare_texts(
            references, gold_only=self._gold_only, read=self._words.of, usable=single_reference.non_empty
        )

    def _idf_of(self, texts: single_reference.PreparedTexts, counts: Sequence[Counts]) -> Idf:
        """Count the items of each n-gram; items without usable references do not count."""
        scored = [item for item in range(texts.items) if item not in texts.problems]
        frequency = Counter[Ngram]()
        for item_place in scored:
            numbers = texts.numbers[texts.offsets[item_place] : texts.offsets[item_place + 1]].tolist()
            frequency.update(set().union(*(ngrams for number in numbers for ngrams in counts[number])))
        return Idf(len(scored), frequency)

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score and a count for each row."""
        assert isinstance(prepared, PreparedCider)
        distinct = single_reference.DistinctTexts.of(replies)
        weighted = [_weigh(self._counts(tokens), prepared.idf) for tokens in self._words.of(distinct.texts)]
        pairs = single_reference.TextPairs.of(
            prepared.texts.offsets, prepared.texts.numbers, distinct.numbers[reply_places], item_places
        )
        values = [
            self._similarity(weighted[h], prepared.ngrams[t])
            for h, t in zip(pairs.reply.tolist(), pairs.reference.tolist(), strict=True)
        ]
        scores = pairs.combine(np.array(values, dtype=np.float64), "mean")
        scores[np.isin(item_places, list(prepared.problems))] = np.nan
        return self.rows(scores)

    def _counts(self, tokens: Sequence[str]) -> Counts:
        return [
            Counter([tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1)])
            for n in range(1, self._order + 1)
        ]

    def _similarity(self, reply: WeightedNgrams, reference: WeightedNgrams) -> float:
        """Return ten times the cosine, the mean over all orders; an order in which a text has no weight counts 0."""
        total = 0.0
        for n in range(self._order):
            norms = reply.norms[n] * reference.norms[n]
            if norms > 0:
                total += self._product(reply.values[n], reference.values[n]) / norms
        if self._clips:
            total *= exp(-((reply.length - reference.length) ** 2) / (2 * self._sigma**2))
        return 10 * total / self._order

    def _product(self, reply: Mapping[Ngram, float], reference: Mapping[Ngram, float]) -> float:
        shared: Iterable[Ngram] = (ngram for ngram in reply if ngram in reference)
        if self._clips:
            return fsum(min(reply[ngram], reference[ngram]) * reference[ngram] for ngram in shared)
        return fsum(reply[ngram] * reference[ngram] for ngram in shared)


def _in_order(ngrams: list[Ngram], place: int = 0) -> Iterator[Ngram]:
    """Yield them sorted, by pieces, since nothing else runs while Python sorts a list."""
    if len(ngrams) <= _SORTED_AT_ONCE:
        yield from sorted(ngrams)
        return
    groups = defaultdict[Ngram, list[Ngram]](list)
    for ngram in ngrams:
        groups[ngram[: place + 1]].append(ngram)
    starts = list(groups)
    pieces = [sorted(starts[at : at + _SORTED_AT_ONCE]) for at in range(0, len(starts), _SORTED_AT_ONCE)]
    for start in merge(*pieces):
        yield from _in_order(groups[start], place + 1) if len(start) > place else groups[start]


def _weigh(counts: Counts, idf: Idf) -> WeightedNgrams:
    values = [{ngram: count * idf.of(ngram) for ngram, count in ngrams.items()} for ngrams in counts]
    return WeightedNgrams(
        values=values,
        norms=[sqrt(fsum(weight * weight for weight in of_order.values())) for of_order in values],
        length=counts[0].total(),
    )
