"""What index to build: the ways there are for so many vectors, what each would take, and the choice within limits.

Memory is arithmetic. Times come from what this machine does in a moment (`Calibration.measure`); while others work on
it, builds took from half to three times as long. Recall is only an expectation, from one English log and vectors of 200
dimensions factorised from its co-occurrences, not GloVe's; the build measures it on the log at hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log, log2, sqrt
from time import perf_counter
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import Usage
from indexer.ann import ITERATIONS, POINTS_A_LIST, AnnBuilder, AnnKind, nearest

_LEFT: Final = 0.64  # of the components: 128 of 200, which held .994 of the variance
_LEAST_COMPONENTS, _MOST_COMPONENTS = 16, 256
EXACT_BELOW: Final = 100_000  # rows: comparing a query with so many takes about 3 ms


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What an index is to hold."""

    rows: int  # distinct utterances
    dimensions: int
    words: int = 0  # with a vector
    extra_words: int = 0
    pairs: int = 0
    occurrences: int = 0
    text_bytes: int = 0
    tokens: int = 0
    keeps_vectors: bool = False  # of an encoder: they cannot be made again out of words


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the index may take, and what it has to do."""

    memory: int | None = None  # bytes, while serving
    recall: float = 0.95  # at 15
    latency_ms: float | None = None  # of a single query among the vectors
    factory: str | None = None  # FAISS's name of the index that the user wants

    def __post_init__(self) -> None:
        """Limits that nothing could keep are mistakes."""
        if not 0 < self.recall <= 1:
            raise Usage(f"a recall of {self.recall} cannot be asked for", remedy="give one above 0 and at most 1")
        if self.memory is not None and self.memory <= 0:
            raise Usage(f"{self.memory} bytes of memory hold nothing", remedy="give more, or no limit")
        if self.latency_ms is not None and not self.latency_ms > 0:
            raise Usage(f"no search is done in {self.latency_ms} ms", remedy="give more, or no limit")


@dataclass(frozen=True, kw_only=True)
class Option:
    """One way to build the index."""

    factory: str
    effort: int
    depth: int  # candidates to be ranked again with exact vectors, so that what the codes lose is found
    memory: int  # bytes held while serving: what is allocated, and what is mapped and walked over by every search
    mapped: int  # bytes of texts and tables, read from the disk where they are needed
    disk: int
    build_memory: int  # at most, of training and adding
    build_seconds: float  # of training and adding
    latency_ms: float  # of a single query among the vectors
    expected_recall: float  # at 15
    why: str


# The choice


def options(
    demand: Demand, limits: Limits | None = None, *, threads: int = 1, calibration: Calibration | None = None
) -> list[Option]:
    """The ways to build it, the best first; where the user names one, that alone."""
    limits, calibration = limits or Limits(), calibration or Calibration.measure(threads, demand.dimensions)
    factories = [limits.factory] if limits.factory else _factories(demand, calibration)
    return [_option(AnnKind.of(factory, demand.dimensions), demand, limits, calibration) for factory in factories]


def choose(ways: Sequence[Option], limits: Limits) -> Option:
    """The first that keeps the limits; if none does, Usage says what the nearest one lacks."""
    lacks = [_lacks(option, limits) for option in ways]
    for option, lack in zip(ways, lacks, strict=True):
        if not lack:
            return option
    nearest_one = min(range(len(ways)), key=lambda way: sum(lack.excess for lack in lacks[way]))
    lack = lacks[nearest_one]
    raise Usage(
        f"no index keeps these limits: the nearest, {ways[nearest_one].factory}, "
        + " and ".join(one.text for one in lack),
        remedy="allow " + " and ".join(one.remedy for one in lack),
    )


class _Lack(NamedTuple):
    """A limit that an option does not keep."""

    excess: float  # as a share of the limit
    text: str
    remedy: str


def _lacks(option: Option, limits: Limits) -> list[_Lack]:
    """What an option has too much or too little of; the recall of an index that the user names is the user's matter."""
    lacks = list[_Lack]()
    if limits.memory is not None and option.memory > limits.memory:
        takes = f"{_amount(option.memory)} of memory"
        text = f"takes {takes} where {_amount(limits.memory)} are allowed"
        lacks.append(_Lack(option.memory / limits.memory - 1, text, takes))
    if limits.latency_ms is not None and option.latency_ms > limits.latency_ms:
        text = f"takes {option.latency_ms:.3g} ms for a query where {limits.latency_ms:g} ms are allowed"
        lacks.append(_Lack(option.latency_ms / limits.latency_ms - 1, text, f"{option.latency_ms:.3g} ms"))
    if limits.factory is None and option.expected_recall < limits.recall:
        text = (
            f"is expected to find {option.expected_recall:.4g} of the right results where {limits.recall:g} are wanted"
        )
        lacks.append(
            _Lack(limits.recall / option.expected_recall - 1, text, f"a recall of {option.expected_recall:.4g}")
        )
    return lacks


def _amount(size: int) -> str:
    """Bytes for people, rounded up: given as a limit, it is enough."""
    power = max(0, min(3, (size.bit_length() - 1) // 10))
    return f"{ceil(100 * size / (1 << 10 * power)) / 100:g} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"


# Options


def _option(kind: AnnKind, demand: Demand, limits: Limits, calibration: Calibration) -> Option:
    code, effort = _code_of(kind.factory), _effort(kind, limits.recall)
    vectors = demand.rows * kind.row_bytes + kind.lists * kind.list_bytes
    vectors += demand.rows * kind.looked_at_bytes
    tables = _table_bytes(demand)
    return Option(
        factory=kind.factory,
        effort=effort,
        depth=code.depth,
        memory=_word_bytes(demand) + vectors,
        mapped=tables,
        disk=vectors + tables,
        build_memory=_build_memory(kind, demand),
        build_seconds=_build_seconds(kind, demand, calibration),
        latency_ms=1e3 * _latency(kind, effort, demand, calibration),
        expected_recall=_reached(kind, effort) * code.kept,
        why=_why(kind, effort, code),
    )


def _factories(demand: Demand, calibration: Calibration) -> list[str]:
    """Flat where that is fast; else lists, with the quickest codes first, and then from fine to coarse."""
    lists = _lists(demand, calibration)
    coded = [f"IVF{lists},{code}" for code in ("SQfp16", "SQ8", "RaBitQfs")] if lists >= _FEWEST_LISTS else []
    if coded and (projected := _projected(lists, demand.dimensions)):
        coded.insert(0, projected)
    return ["Flat", *coded] if demand.rows < EXACT_BELOW else [*coded, "Flat"]


def _projected(lists: int, dimensions: int) -> str | None:
    """Lists with four bits for every two of the components that a projection leaves; None where there are too few."""
    components = 8 * min(_MOST_COMPONENTS // 8, round(_LEFT * dimensions / 8))
    return f"PCAR{components},IVF{lists},PQ{components // 2}x4fs" if components >= _LEAST_COMPONENTS else None


def _lists(demand: Demand, calibration: Calibration) -> int:
    """The power of two nearest to 4·√rows, unless training lacks vectors for so many, or takes hours."""
    if demand.rows < POINTS_A_LIST:
        return 0

    def _seconds_for(lists: int) -> float:
        return _list_products(lists, demand.rows, demand.dimensions) * calibration.product

    lists = min(1 << round(log2(4 * sqrt(demand.rows))), 1 << int(log2(demand.rows / POINTS_A_LIST)))
    while (
        lists // 2 >= sqrt(demand.rows)
        and _list_products(lists, demand.rows, demand.dimensions) * calibration.product > _LONGEST_BUILD
    ):
        lists //= 2
    return lists


def _why(kind: AnnKind, effort: int, code: _Code) -> str:
    lists = f"{effort:,} of {kind.lists:,} lists are searched"
    again = f"{code.depth} candidates are ranked again"
    return {
        "flat": "exact: every vector is looked at",
        "codes": f"every vector's code is looked at, {again}",
        "hnsw": f"a graph is walked {effort} wide, {again}",
        "ivf": f"{lists}, {again}",
    }[kind.kind]


# Recall


class _Code(NamedTuple):
    """What is known of a way to store vectors."""

    like: str  # in the calibration
    kept: float  # of the right results in the lists searched, the share among the candidates …
    depth: int  # … when so many are looked at again for 15
    beside: float = 10e-9  # seconds for a vector in a list, beside its components


# Measured at 100 k, 300 k and 1 M rows, with 16 to 128 lists searched. Bytes lose a twentieth among 15 candidates and
# nothing among 64; bits lose a tenth among 64, two in a hundred among 256 and three in a thousand among 512.
_CODES: Final = {
    "Flat": _Code("Flat", 1.0, 64),
    "SQfp16": _Code("SQfp16", 1.0, 64),
    "SQ8": _Code("SQ8", 1.0, 64),
    "PQfs": _Code("PQfs", 0.997, 512, 0.0),
    "RaBitQfs": _Code("RaBitQfs", 0.997, 512),
    "RaBitQ": _Code("RaBitQfs", 0.997, 512),  # slower, and nothing is gained by it
}
_OTHER_CODE: Final = _Code("SQ8", 0.95, 512)  # SQ4 kept that much among 256
_LEAST_KEPT: Final = min(code.kept for code in _CODES.values())

# Searching e of L lists misses exp(−0.527 · e^0.475 · (L / 1024)^−0.137) of the right 15: fitted to 13 measurements, 4
# to 64 of 1,024 lists at 100 k rows, 16 to 128 of 2,048 at 300 k and of 4,096 at 1 M. Among these it is off by 0.04 at
# a recall of 0.6, by 0.02 at 0.8 and by 0.01 above 0.9; of 50 k rows, which were not among them, .955 were expected and
# .972 found. All are one log's: another's may lie elsewhere.
_MISS, _OF_EFFORT, _OF_LISTS = 0.527, 0.475, -0.137
_MISS_IN_A_GRAPH: Final = 0.478  # from a single figure for other vectors: a breadth of 64 finds .968 of 1 M
_BROADEST: Final = 4_096


def _code_of(factory: str) -> _Code:
    if re.fullmatch(r"PCAR.*,PQ\d+x4fs", factory):
        return _CODES["PQfs"]
    code = "Flat" if factory.startswith("HNSW") and "," not in factory else factory.rsplit(",", 1)[-1]
    return _CODES.get(code, _OTHER_CODE)


def _effort(kind: AnnKind, recall: float) -> int:
    """How hard to search for such a recall: with fine codes as hard as with coarse ones, so that they find no less."""
    if kind.kind in ("flat", "codes"):
        return 1
    most = kind.lists or _BROADEST
    wanted = recall / min(_LEAST_KEPT, _code_of(kind.factory).kept)
    if wanted >= 1:
        return most
    return min(most, max(1, ceil(float((-log(1 - wanted) / _found_by_one(kind)) ** (1 / _OF_EFFORT)))))


def _reached(kind: AnnKind, effort: int) -> float:
    """Of the right results, the expected share that a search comes across."""
    if kind.kind in ("flat", "codes") or 0 < kind.lists <= effort:
        return 1.0
    return 1.0 - exp(-_found_by_one(kind) * effort**_OF_EFFORT)


def _found_by_one(kind: AnnKind) -> float:
    return _MISS * (kind.lists / 1024) ** _OF_LISTS if kind.lists else _MISS_IN_A_GRAPH


# Memory

# Of vectors and lists, a serving process held what is planned within 5 %, and 2 MiB of FAISS's own code; builds of 50 k
# to 800 k vectors peaked within 6 % of the plan. What words, texts and tables take is reckoned, not measured.
# Inverted lists grow by doubling, and only pages that were written are held: 1.24 to 1.35 times their content was
# measured, 100 k to 1 M rows.
_GROWTH_OF_LISTS: Final = 1.3
_BLOCK: Final = 65_536  # vectors that are added at once
_PRODUCTS: Final = 16 << 20  # FAISS's block for products of matrices
_WORD: Final = 65  # a word as a string of Python's, with its place in a list
_UTTERANCE: Final = 44 + 4  # key, hash, fingerprint, starts of pairs and of tokens, its vector; where its text begins
_PAIR: Final = 32 + 4  # key, hash, starts of occurrences and of tokens; where its text begins
_OCCURRENCE: Final = 18 + 30  # log, dialogue, time; the names of the dialogue and of the place in it
_FEWEST_LISTS: Final = 16  # with fewer there is nothing to be gained


def _word_bytes(demand: Demand) -> int:
    """The words, their vectors and scales, and the table of hashes: a power of two, at most half full."""
    slots = 1 << max(10, ceil(log2(max(1, 2 * (demand.words + demand.extra_words)))))
    return demand.words * (4 * demand.dimensions + 8 + _WORD) + 8 * slots


def _table_bytes(demand: Demand) -> int:
    """Texts, columns, tokens, and BM25's postings: eight bytes a word of an utterance, and half of the words are."""
    columns = _UTTERANCE * demand.rows + _PAIR * demand.pairs + _OCCURRENCE * demand.occurrences
    vectors = 4 * demand.dimensions * demand.rows if demand.keeps_vectors else 0
    return demand.text_bytes + columns + (4 + 8 // 2) * demand.tokens + 8 * demand.extra_words + vectors


def _build_memory(kind: AnnKind, demand: Demand) -> int:
    """The larger of training and adding, each with two copies of what is given."""
    rows, vector, block = demand.rows, 4 * (-(-demand.dimensions // 8) * 8), min(_BLOCK, demand.rows)
    training = AnnBuilder.training_rows(kind.factory, rows)
    train = (2 * training + (block if training else 0)) * vector  # what codes learn from, less its centroids
    if kind.kind == "ivf":
        lists = kind.lists * kind.list_bytes + _PRODUCTS
        add = _GROWTH_OF_LISTS * rows * kind.row_bytes + 2 * block * vector
        return int(_word_bytes(demand) + lists + max(train, add))
    return _word_bytes(demand) + max(train, _adding_in_one_piece(rows, kind.row_bytes, vector))


def _adding_in_one_piece(rows: int, row_bytes: int, vector: int) -> int:
    """Vectors in one piece get twice the room when it is full; both places are held until the old one is copied."""
    first = min(_BLOCK, rows)
    moved = _BLOCK << ((rows - 1) // _BLOCK).bit_length() - 1 if rows > _BLOCK else 0
    last = min(_BLOCK, rows - moved)
    return max(
        first * (row_bytes + 2 * vector),
        (2 * moved + last) * row_bytes + 2 * last * vector,
        rows * row_bytes + 2 * last * vector,
    )


# Time

# Of a vector in a list, beside its components: its id, the heap, and that it is not in the cache. At 100 k to 1 M rows,
# half precision took 26 to 29 ns a vector where the calibration's loop takes 15, bytes 36 to 40 where it takes 26, bits
# 19 to 23 where it takes 14; four bits for two components took 4 at 2 M. A flat index far larger than the cache takes
# longer: 400 k rows 18 ms, 11 expected.
_LENGTH_OF_A_SEARCHED_LIST: Final = 1.9  # times the mean: that of a vector's own list was 1.88 at 300 k, 1.93 at 1 M
_WALK: Final = 4e-6  # a step in a graph of 32 links: 0.27 ms for 64 at 1 M rows
_LINK: Final = 600e-6  # linking a vector to such a graph on one thread: reckoned from 290 s for 1 M on two
_ENCODE: Final = 8e-9  # a component: bits 8, half precision 3.3, bytes 2.3 ns
_LONGEST_BUILD: Final = 4 * 3600.0  # seconds; beyond, fewer and longer lists do


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How fast this machine is."""

    product: float  # seconds for a multiplication and an addition in a product of matrices, on all threads
    compare: Mapping[str, float]  # seconds for a component of a code, on one thread

    @classmethod
    def measure(cls, threads: int = 1, dimensions: int = 200) -> Self:
        """Try it, in about a fifth of a second."""
        rows = max(1_000, min(8_000, 1_600_000 // dimensions))
        vectors = np.random.default_rng(0).standard_normal((rows, dimensions), np.float32)
        queries, centroids = vectors[:1_000], vectors[:4_096]
        multiply = _least(3, lambda: nearest(queries, centroids, 1, threads=threads))
        return cls(
            product=multiply / (len(queries) * centroids.size),
            compare={code: _compare_seconds(factory, vectors) for code, factory in _to_compare(dimensions).items()},
        )


def _to_compare(dimensions: int) -> dict[str, str]:
    """A small index of each code, by its name in the calibration."""
    return {
        "Flat": "Flat",
        "SQfp16": "SQfp16",
        "SQ8": "SQ8",
        "RaBitQfs": "IVF1,RaBitQfs",
        "PQfs": _projected(1, dimensions) or "IVF1,RaBitQfs",
    }


def _compare_seconds(factory: str, vectors: NDArray[np.float32]) -> float:
    builder = AnnBuilder.train(factory, vectors.shape[1], vectors[:1_000])
    builder.add(vectors)
    index = builder.index()
    return _least(5, lambda: index.search(vectors[:1], 64, threads=1)) / vectors.size


def _least(times: int, work: Callable[[], object]) -> float:
    """The least of some times: what others take longer is other work on the machine."""

    def once() -> float:
        began = perf_counter()
        work()
        return perf_counter() - began

    return min(once() for _ in range(times))


def _latency(kind: AnnKind, effort: int, demand: Demand, calibration: Calibration) -> float:
    """Seconds for a single query, without ranking its candidates again."""
    code = _code_of(kind.factory)
    compare = demand.dimensions * calibration.compare[code.like] + code.beside
    if kind.kind == "hnsw":
        return effort * _WALK
    if kind.kind != "ivf":
        return demand.rows * compare
    searched = min(1.0, _LENGTH_OF_A_SEARCHED_LIST * effort / kind.lists) * demand.rows
    return kind.lists * _stored(kind, demand) * calibration.compare["Flat"] + searched * compare


def _build_seconds(kind: AnnKind, demand: Demand, calibration: Calibration) -> float:
    """Finding the lists, a list for every vector, and its code."""
    if kind.kind == "hnsw":
        return demand.rows * _LINK
    products = _list_products(kind.lists, demand.rows, _stored(kind, demand))
    projecting = demand.rows * demand.dimensions * kind.components
    return (products + projecting) * calibration.product + demand.rows * demand.dimensions * _ENCODE


def _stored(kind: AnnKind, demand: Demand) -> int:
    """The components of a stored vector."""
    return kind.components or demand.dimensions


def _list_products(lists: int, rows: int, components: int) -> float:
    """Multiplications: every vector of the sample with every centroid in each round, then every vector once."""
    return (ITERATIONS * POINTS_A_LIST * lists + rows) * float(lists) * components
