"""BM25 in Lucene's form, exactly and in float64: statistics of a log's words, and the score of a query and a text.

    idf(w)      = ln(1 + (N - df(w) + 1/2) / (df(w) + 1/2))
    score(q, t) = Σ times(w in q) · idf(w) · tf / (tf + k1 · (1 - b + b · length(t) / average length))

The sum goes over the distinct words w of the query, ascending by their hashes, so that it is the same to the last bit
in whichever order an index numbers its words; tf is how often w occurs in the text. It is rounded to a millionth, so
that a text has the same score wherever it is computed. N, df and the average length are always those of one set of
texts, the main segment's or those of all shards together: texts of later segments are scored by them too, and their
new words have df = 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import read_json, write_json
from refaug.core.kernels.kernel import compiled, frozen
from refaug.indexer.columns import map_array

Codes = NDArray[np.int32]
Offsets = NDArray[np.int64]
Scores = NDArray[np.float64]

_MILLION: Final = 1e6
_CODE_BITS: Final = 32


@dataclass(frozen=True, kw_only=True)
class Bm25Settings:
    """BM25's parameters: k1, how soon repetition of a word stops counting (at once with 0), and b, length penalty."""

    k1: float = 1.2
    b: float = 0.75

    def __post_init__(self) -> None:
        if not 0 <= self.k1 < math.inf:
            raise Usage(f"k1={self.k1} makes no sense for BM25", remedy="give 0 or more; 1.2 is usual")
        if not 0 <= self.b <= 1:
            raise Usage(f"b={self.b} makes no sense for BM25", remedy="give a number from 0 to 1; 0.75 is usual")


# Statistics of a set of texts


@dataclass(frozen=True, eq=False, kw_only=True)
class Bm25Statistics:
    """How many texts there are, their average length, and how many of them contain each word."""

    document_count: int
    average_length: float
    df: NDArray[np.int32]  # by code; codes beyond its end occur in no text

    @classmethod
    def of(cls, codes: Codes, offsets: Offsets, vocabulary_size: int) -> Self:
        """Count the words of these texts; codes must be below the size of the vocabulary."""
        require_codes(codes, offsets, vocabulary_size)
        document_count = len(offsets) - 1
        return cls(
            document_count=document_count,
            # Without any words nothing matches, so any positive divisor will do.
            average_length=len(codes) / document_count if len(codes) else 1.0,
            df=frozen(_document_frequencies(frozen(codes), frozen(offsets), vocabulary_size)),
        )

    def idf(self, codes: Codes) -> Scores:
        """Return the weight of a match of each word; always above 0."""
        return np.asarray(_idf(frozen(codes), frozen(self.df), self.document_count))

    @classmethod
    def summed(cls, parts: Iterable[tuple[Codes, Offsets]], vocabulary_size: int) -> Self:
        """Count the words of texts that lie in several parts; no text lies in two."""
        df, documents, words = np.zeros(vocabulary_size, np.int32), 0, 0
        for codes, offsets in parts:
            counted = cls.of(codes, offsets, vocabulary_size)
            df += counted.df
            documents, words = documents + counted.document_count, words + len(codes)
        return cls(document_count=documents, average_length=words / documents if words else 1.0, df=frozen(df))

    def save(self, folder: Path, name: str) -> None:
        """Write `name`.df.npy and `name`.json."""
        write_array(folder / f"{name}.df.npy", self.df)
        facts = {"document_count": self.document_count, "average_length": self.average_length}
        write_json(folder / f"{name}.json", facts)

    @classmethod
    def open(cls, folder: Path, name: str) -> Self:
        """Map the files that `save` wrote."""
        path = folder / f"{name}.json"
        facts = read_json(path)
        count, length = facts.get("document_count"), facts.get("average_length")
        if not (isinstance(count, int) and isinstance(length, int | float) and count >= 0 and length > 0):
            raise Corrupt(f"{path}: {facts} are no statistics of texts", remedy="build the index again")
        df = map_array(folder / f"{name}.df.npy", np.int32)
        return cls(document_count=count, average_length=float(length), df=df)


def require_codes(codes: Codes, offsets: Offsets, vocabulary_size: int) -> None:
    """Refuse codes or offsets that would lead a compiled loop out of its arrays."""
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(codes) or (offsets[1:] < offsets[:-1]).any():
        raise Corrupt(
            f"{len(offsets)} offsets do not cut {len(codes)} words into texts", remedy="build the index again"
        )
    if len(codes) and not (codes.min() >= 0 and codes.max() < vocabulary_size):
        raise Corrupt(
            f"the words of the texts have codes from {codes.min()} to {codes.max()}, "
            f"but the vocabulary goes from 0 to {vocabulary_size - 1}",
            remedy="build the index again",
        )


@compiled
def _document_frequencies(codes: Codes, offsets: Offsets, vocabulary_size: int) -> NDArray[np.int32]:
    frequencies = np.zeros(vocabulary_size, np.int32)
    latest = np.full(vocabulary_size, -1, np.int64)  # the last text that had the word
    for text in range(len(offsets) - 1):
        for place in range(offsets[text], offsets[text + 1]):
            code = codes[place]
            if latest[code] != text:
                latest[code] = text
                frequencies[code] += 1
    return frequencies


@compiled
def _idf(codes: Codes, df: NDArray[np.int32], document_count: int) -> Scores:
    """Use the C library's logarithm, as Python does; numpy's differs between processors."""
    idf = np.empty(len(codes))
    for i in range(len(codes)):
        frequency = df[codes[i]] if codes[i] < len(df) else 0
        idf[i] = math.log(1 + (document_count - frequency + 0.5) / (frequency + 0.5))
    return idf


# Queries


class Bm25Queries(NamedTuple):
    """Texts as queries: the distinct known words of each, with the parameters for scoring.

    Unknown words (code -1) are left out: they match nothing. What a text scores as a query to itself has them
    (`self_scores`).
    """

    start: Offsets  # (queries + 1,): where the words of each query begin
    code: Codes
    times: NDArray[np.int32]  # how often the word is in the query
    weight: Scores  # times · idf
    k1: float
    b: float
    average_length: float


def weigh_queries(
    codes: Codes,
    offsets: Offsets,
    hashes: NDArray[np.uint64] | None = None,
    *,
    statistics: Bm25Statistics,
    settings: Bm25Settings,
) -> Bm25Queries:
    """Turn texts into queries, weighed by the statistics of the texts they will be compared with.

    The words of each are in the order of their hashes; without hashes, in that of their codes.
    """
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    is_known = codes >= 0
    words, first, counts = np.unique(
        query[is_known] << _CODE_BITS | codes[is_known], return_index=True, return_counts=True
    )
    if hashes is not None:
        order = np.lexsort((hashes[is_known][first], words >> _CODE_BITS))
        words, counts = words[order], counts[order]
    distinct = (words & (2**_CODE_BITS - 1)).astype(np.int32)
    return Bm25Queries(
        start=frozen(np.searchsorted(words >> _CODE_BITS, np.arange(len(offsets))).astype(np.int64)),
        code=frozen(distinct),
        times=frozen(counts.astype(np.int32)),
        weight=frozen(counts * statistics.idf(distinct)),
        k1=float(settings.k1),
        b=float(settings.b),
        average_length=statistics.average_length,
    )


def select_queries(queries: Bm25Queries, query_numbers: NDArray[np.int64]) -> Bm25Queries:
    """Return these of the queries, in this order."""
    lengths = np.diff(queries.start)[query_numbers]
    start = np.zeros(len(query_numbers) + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    places = np.repeat(queries.start[query_numbers] - start[:-1], lengths) + np.arange(start[-1])
    return queries._replace(
        start=frozen(start),
        code=frozen(queries.code[places]),
        times=frozen(queries.times[places]),
        weight=frozen(queries.weight[places]),
    )


# Scores


@compiled
def bm25_row_score(queries: Bm25Queries, query: int, codes: Codes, start: int, end: int) -> float:
    """Return the score of one query and the text codes[start:end]; called from other compiled loops."""
    norm, score = _norm(queries, end - start), 0.0
    for word in range(queries.start[query], queries.start[query + 1]):
        tf = 0
        for place in range(start, end):
            tf += codes[place] == queries.code[word]
        score += _gain(queries.weight[word], tf, norm)
    return _round(score)


@compiled
def brute_force(queries: Bm25Queries, query: int, codes: Codes, offsets: Offsets) -> Scores:
    """Return the score of one query and each of the texts; for segments too small for an index."""
    scores = np.empty(len(offsets) - 1)
    for text in range(len(scores)):
        scores[text] = bm25_row_score(queries, query, codes, offsets[text], offsets[text + 1])
    return scores


def self_scores(
    codes: Codes, hashes: NDArray[np.uint64], offsets: Offsets, *, statistics: Bm25Statistics, settings: Bm25Settings
) -> Scores:
    """Return the score of each text as a query to itself: a divisor, so at least a millionth; 0 without any word.

    Words that the statistics do not know are rare words like any other: they count with a frequency of 0, and the text
    has its whole length. `hashes` tell them apart.
    """
    lengths = np.diff(offsets)
    text = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((hashes, text))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (text[order][1:] != text[order][:-1]) | (hashes[order][1:] != hashes[order][:-1])
    first = np.flatnonzero(is_first)
    times = np.diff(np.append(first, len(order)))
    owner, word = text[order][first], codes[order][first]
    weights = times * statistics.idf(np.where(word < 0, len(statistics.df), word).astype(np.int32))
    norms = settings.k1 * (1 - settings.b + settings.b * lengths / statistics.average_length)
    scores = np.bincount(owner, weights * times / (times + norms[owner]), minlength=len(lengths))
    return np.asarray(np.where(lengths > 0, np.maximum(np.rint(scores * _MILLION), 1) / _MILLION, 0.0))


@compiled
def _norm(queries: Bm25Queries, length: int) -> float:
    """Return how often a word must occur in a text of this length to get half of its weight."""
    return queries.k1 * (1 - queries.b + queries.b * length / queries.average_length)


@compiled
def _gain(weight: float, tf: int, norm: float) -> float:
    return weight * (tf / (tf + norm)) if tf else 0.0  # with k1 = 0 there would be 0 / 0


@compiled
def _round(score: float) -> float:
    return np.rint(score * _MILLION) / _MILLION  # type: ignore[no-any-return]
