"""Planning an index: the ways to store so many vectors, what each costs, and the choice within limits.

Memory is computed. Times come from a short measurement on this machine (`Calibration.measure`); with other work on the
machine, builds took from half to three times as long. Recall is an estimate, from one English log and vectors of 200
dimensions factorised from its co-occurrences, not GloVe's; the build measures it on its own log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log, log2, sqrt
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.indexer.index_folders import Places, encoder_source, open_vectors_version
from refaug.indexer.nearest.faiss_calls import nearest
from refaug.indexer.nearest.index_builder import ITERATIONS, POINTS_A_LIST, AnnBuilder
from refaug.indexer.nearest.index_kinds import AnnKind
from refaug.logs.store import StoredLog

_SHARE_OF_COMPONENTS: Final = 0.64  # 128 of 200 held .994 of the variance
_LEAST_COMPONENTS, _MOST_COMPONENTS = 16, 256
EXACT_BELOW: Final = 100_000  # rows: comparing a query with so many takes about 3 ms


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The planned contents of an index."""

    rows: int  # distinct utterances
    dimensions: int
    words: int = 0  # with a vector
    extra_words: int = 0
    pairs: int = 0
    occurrences: int = 0
    text_bytes: int = 0
    tokens: int = 0
    keeps_vectors: bool = False  # of an encoder: they cannot be computed again from words


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of an index and the recall it must reach."""

    memory: int | None = None  # bytes, while serving
    recall: float = 0.95  # at 15
    latency_ms: float | None = None  # of a single query among the vectors
    factory: str | None = None  # FAISS's name of the index that the user chose

    def __post_init__(self) -> None:
        """Refuse limits that no index could keep."""
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
    depth: int  # candidates ranked again with exact vectors, which makes up for coarse codes
    memory: int  # bytes while serving: allocated, or mapped and read by every search
    mapped: int  # bytes of texts and tables, read from disk when needed
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
    """Return the ways to build the index, best first; only the user's choice if there is one."""
    limits, calibration = limits or Limits(), calibration or Calibration.measure(threads, demand.dimensions)
    factories = [limits.factory] if limits.factory else _factories(demand, calibration)
    return [_option(AnnKind.of(factory, demand.dimensions), demand, limits, calibration) for factory in factories]


def choose(candidates: Sequence[Option], limits: Limits) -> Option:
    """Return the first option within the limits; if there is none, Usage says what the nearest one lacks."""
    lacks = [_shortfalls(option, limits) for option in candidates]
    for option, lack in zip(candidates, lacks, strict=True):
        if not lack:
            return option
    nearest_option = min(range(len(candidates)), key=lambda place: sum(lack.excess for lack in lacks[place]))
    lack = lacks[nearest_option]
    raise Usage(
        f"no index keeps these limits: the nearest, {candidates[nearest_option].factory}, "
        + " and ".join(shortfall.text for shortfall in lack),
        remedy="allow " + " and ".join(shortfall.remedy for shortfall in lack),
    )


class _Shortfall(NamedTuple):
    """A limit that an option does not keep."""

    excess: float  # as a share of the limit
    text: str
    remedy: str


def _shortfalls(option: Option, limits: Limits) -> list[_Shortfall]:
    """Return the limits that an option does not keep; the recall of an index the user chose is not one of them."""
    lacks = list[_Shortfall]()
    if limits.memory is not None and option.memory > limits.memory:
        takes = f"{_format_bytes(option.memory)} of memory"
        text = f"takes {takes} where {_format_bytes(limits.memory)} are allowed"
        lacks.append(_Shortfall(option.memory / limits.memory - 1, text, takes))
    if limits.latency_ms is not None and option.latency_ms > limits.latency_ms:
        text = f"takes {option.latency_ms:.3g} ms for a query where {limits.latency_ms:g} ms are allowed"
        lacks.append(_Shortfall(option.latency_ms / limits.latency_ms - 1, text, f"{option.latency_ms:.3g} ms"))
    if limits.factory is None and option.expected_recall < limits.recall:
        text = (
            f"is expected to find {option.expected_recall:.4g} of the right results where {limits.recall:g} are wanted"
        )
        lacks.append(
            _Shortfall(limits.recall / option.expected_recall - 1, text, f"a recall of {option.expected_recall:.4g}")
        )
    return lacks


def _format_bytes(size: int) -> str:
    """Return bytes in a readable unit, rounded up: given as a limit, it is enough."""
    power = max(0, min(3, (size.bit_length() - 1) // 10))
    return f"{ceil(100 * size / (1 << 10 * power)) / 100:g} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"


# Options


def _option(kind: AnnKind, demand: Demand, limits: Limits, calibration: Calibration) -> Option:
    code, effort = _code_of(kind.factory), _effort(kind, limits.recall)
    vectors = demand.rows * kind.row_bytes + kind.lists * kind.list_bytes
    vectors += demand.rows * kind.reranking_bytes
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
        expected_recall=_share_in_lists(kind, effort) * code.share_found,
        why=_explain(kind, effort, code),
    )


def _factories(demand: Demand, calibration: Calibration) -> list[str]:
    """Return factory strings: Flat where that is fast, else lists with the quickest code first, then fine to coarse."""
    lists = _lists(demand, calibration)
    coded = [f"IVF{lists},{code}" for code in ("SQfp16", "SQ8", "RaBitQfs")] if lists >= _FEWEST_LISTS else []
    if coded and (projected_factory := _projected_factory(lists, demand.dimensions)):
        coded.insert(0, projected_factory)
    return ["Flat", *coded] if demand.rows < EXACT_BELOW else [*coded, "Flat"]


def _projected_factory(lists: int, dimensions: int) -> str | None:
    """Return lists with four bits for every two components after a projection; None where there are too few."""
    components = 8 * min(_MOST_COMPONENTS // 8, round(_SHARE_OF_COMPONENTS * dimensions / 8))
    return f"PCAR{components},IVF{lists},PQ{components // 2}x4fs" if components >= _LEAST_COMPONENTS else None


def _lists(demand: Demand, calibration: Calibration) -> int:
    """Return the power of two nearest to 4·√rows, or less where the sample is too small or training takes hours."""
    if demand.rows < POINTS_A_LIST:
        return 0

    lists = min(1 << round(log2(4 * sqrt(demand.rows))), 1 << int(log2(demand.rows / POINTS_A_LIST)))
    while (
        lists // 2 >= sqrt(demand.rows)
        and _list_products(lists, demand.rows, demand.dimensions) * calibration.product > _LONGEST_BUILD
    ):
        lists //= 2
    return lists


def _explain(kind: AnnKind, effort: int, code: _Code) -> str:
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
    """The measured properties of a way to store vectors."""

    like: str  # its name in the calibration
    share_found: float  # of the right results in the lists searched, the share among the candidates …
    depth: int  # … when so many are ranked again for 15
    beside: float = 10e-9  # seconds for a vector in a list, beside its components


# Measured at 100 k, 300 k and 1 M rows, with 16 to 128 lists searched. Bytes lose a twentieth among 15 candidates and
# nothing among 64; bits lose a tenth among 64, two in a hundred among 256 and three in a thousand among 512.
_CODES: Final = {
    "Flat": _Code("Flat", 1.0, 64),
    "SQfp16": _Code("SQfp16", 1.0, 64),
    "SQ8": _Code("SQ8", 1.0, 64),
    "PQfs": _Code("PQfs", 0.997, 512, 0.0),
    "RaBitQfs": _Code("RaBitQfs", 0.997, 512),
    "RaBitQ": _Code("RaBitQfs", 0.997, 512),  # slower than RaBitQfs, without any gain
}
_OTHER_CODE: Final = _Code("SQ8", 0.95, 512)  # SQ4 found that share among 256
_LEAST_SHARE_FOUND: Final = min(code.share_found for code in _CODES.values())

# Searching e of L lists misses exp(−0.527 · e^0.475 · (L / 1024)^−0.137) of the right 15. The formula is fitted to 13
# measurements: 4 to 64 of 1,024 lists at 100 k rows, 16 to 128 of 2,048 at 300 k and of 4,096 at 1 M. Its error among
# these is 0.04 at a recall of 0.6, 0.02 at 0.8 and 0.01 above 0.9; for 50 k rows, which were not among them, it
# expected .955 where .972 were found. All come from one log; another may differ.
_MISS, _OF_EFFORT, _OF_LISTS = 0.527, 0.475, -0.137
_MISS_IN_A_GRAPH: Final = 0.478  # from a single figure for other vectors: a breadth of 64 finds .968 of 1 M
_BROADEST: Final = 4_096


def _code_of(factory: str) -> _Code:
    if re.fullmatch(r"PCAR.*,PQ\d+x4fs", factory):
        return _CODES["PQfs"]
    code = "Flat" if factory.startswith("HNSW") and "," not in factory else factory.rsplit(",", 1)[-1]
    return _CODES.get(code, _OTHER_CODE)


def _effort(kind: AnnKind, recall: float) -> int:
    """Return the effort for such a recall: fine codes get the effort of coarse ones, so that they find no less."""
    if kind.kind in ("flat", "codes"):
        return 1
    most = kind.lists or _BROADEST
    share = recall / min(_LEAST_SHARE_FOUND, _code_of(kind.factory).share_found)
    if share >= 1:
        return most
    return min(most, max(1, ceil(float((-log(1 - share) / _rate_of_effort(kind)) ** (1 / _OF_EFFORT)))))


def _share_in_lists(kind: AnnKind, effort: int) -> float:
    """Return the expected share of the right results that a search comes across."""
    if kind.kind in ("flat", "codes") or 0 < kind.lists <= effort:
        return 1.0
    return 1.0 - exp(-_rate_of_effort(kind) * effort**_OF_EFFORT)


def _rate_of_effort(kind: AnnKind) -> float:
    return _MISS * (kind.lists / 1024) ** _OF_LISTS if kind.lists else _MISS_IN_A_GRAPH


# Memory

# A serving process held the planned memory of vectors and lists within 5 %, and 2 MiB of FAISS's code; builds of 50 k
# to 800 k vectors peaked within 6 % of the plan. The memory of words, texts and tables is computed, not measured.
# Inverted lists grow by doubling, and only pages that were written use memory: 1.24 to 1.35 times their content was
# measured, 100 k to 1 M rows.
_GROWTH_OF_LISTS: Final = 1.3
_BLOCK: Final = 65_536  # vectors added at time_once
_PRODUCTS: Final = 16 << 20  # FAISS's block for products of matrices
_WORD: Final = 65  # a word as a string of Python's, with its place in a list
_UTTERANCE: Final = 44 + 4  # key, hash, fingerprint, starts of pairs and of tokens, its vector; where its text begins
_PAIR: Final = 32 + 4  # key, hash, starts of occurrences and of tokens; where its text begins
_OCCURRENCE: Final = 18 + 30  # log, dialogue, time; the names of the dialogue and of the place in it
_FEWEST_LISTS: Final = 16  # fewer gain nothing


def _word_bytes(demand: Demand) -> int:
    """Bytes of the words, their vectors and scales, and the table of hashes: a power of two, at most half full."""
    slots = 1 << max(10, ceil(log2(max(1, 2 * (demand.words + demand.extra_words)))))
    return demand.words * (4 * demand.dimensions + 8 + _WORD) + 8 * slots


def _table_bytes(demand: Demand) -> int:
    """Bytes of texts, columns, tokens and BM25's postings: eight bytes a word of an utterance, half of the words."""
    columns = _UTTERANCE * demand.rows + _PAIR * demand.pairs + _OCCURRENCE * demand.occurrences
    vectors = 4 * demand.dimensions * demand.rows if demand.keeps_vectors else 0
    return demand.text_bytes + columns + (4 + 8 // 2) * demand.tokens + 8 * demand.extra_words + vectors


def _build_memory(kind: AnnKind, demand: Demand) -> int:
    """Return the peak memory of training or adding, whichever is larger, each with two copies of its input."""
    rows, vector, block = demand.rows, 4 * (-(-demand.dimensions // 8) * 8), min(_BLOCK, demand.rows)
    training = AnnBuilder.training_rows(kind.factory, rows)
    train = (2 * training + (block if training else 0)) * vector  # what codes learn from, without its centroids
    if kind.kind == "ivf":
        lists = kind.lists * kind.list_bytes + _PRODUCTS
        add = _GROWTH_OF_LISTS * rows * kind.row_bytes + 2 * block * vector
        return int(_word_bytes(demand) + lists + max(train, add))
    return _word_bytes(demand) + max(train, _growing_array_peak(rows, kind.row_bytes, vector))


def shard_memory(demand: Demand, factory: str, shards: int) -> int:
    """Return the peak memory of training for all shards or of adding the vectors of one; all have the same words."""
    kind = AnnKind.of(factory, demand.dimensions)
    sample = 2 * 4 * demand.dimensions * min(demand.rows, POINTS_A_LIST * kind.lists)
    shard = replace(demand, rows=ceil(demand.rows / shards))
    return max(_build_memory(kind, shard), _word_bytes(demand) + sample)


def _growing_array_peak(rows: int, row_bytes: int, vector: int) -> int:
    """Return the peak memory of adding vectors to one array, whose size doubles when it is full.

    The old and the new array both exist until the old one is copied.
    """
    first = min(_BLOCK, rows)
    moved = _BLOCK << ((rows - 1) // _BLOCK).bit_length() - 1 if rows > _BLOCK else 0
    last = min(_BLOCK, rows - moved)
    return max(
        first * (row_bytes + 2 * vector),
        (2 * moved + last) * row_bytes + 2 * last * vector,
        rows * row_bytes + 2 * last * vector,
    )


# Time

# Time for a vector in a list, beside its components: its id, the heap, and a cache miss. At 100 k to 1 M rows, half
# precision took 26 to 29 ns a vector where the calibration's loop takes 15, bytes 36 to 40 where it takes 26, bits 19
# to 23 where it takes 14; four bits for two components took 4 at 2 M. A flat index far larger than the cache takes
# longer: 18 ms for 400 k rows where 11 were expected.
_LENGTH_OF_A_SEARCHED_LIST: Final = 1.9  # times the mean: a vector's own list measured 1.88 at 300 k, 1.93 at 1 M
_WALK: Final = 4e-6  # a step in a graph of 32 links: 0.27 ms for 64 at 1 M rows
_LINK: Final = 600e-6  # linking a vector to such a graph on one thread: computed from 290 s for 1 M on two
_ENCODE: Final = 8e-9  # a component: bits 8, half precision 3.3, bytes 2.3 ns
_LONGEST_BUILD: Final = 4 * 3600.0  # seconds; longer builds use fewer and longer lists


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The speed of this machine."""

    product: float  # seconds for a multiplication and an addition in a product of matrices, on all threads
    compare: Mapping[str, float]  # seconds for a component of a code, on one thread

    @classmethod
    def measure(cls, threads: int = 1, dimensions: int = 200) -> Self:
        """Measure the speed in about a fifth of a second."""
        rows = max(1_000, min(8_000, 1_600_000 // dimensions))
        vectors = np.random.default_rng(0).standard_normal((rows, dimensions), np.float32)
        queries, centroids = vectors[:1_000], vectors[:4_096]
        multiply = _least_seconds(3, lambda: nearest(queries, centroids, 1, threads=threads))
        return cls(
            product=multiply / (len(queries) * centroids.size),
            compare={
                code: _compare_seconds(factory, vectors) for code, factory in _calibration_factories(dimensions).items()
            },
        )


def _calibration_factories(dimensions: int) -> dict[str, str]:
    """Return a small index of each code, by its name in the calibration."""
    return {
        "Flat": "Flat",
        "SQfp16": "SQfp16",
        "SQ8": "SQ8",
        "RaBitQfs": "IVF1,RaBitQfs",
        "PQfs": _projected_factory(1, dimensions) or "IVF1,RaBitQfs",
    }


def _compare_seconds(factory: str, vectors: NDArray[np.float32]) -> float:
    builder = AnnBuilder.train(factory, vectors.shape[1], vectors[:1_000])
    builder.add(vectors)
    index = builder.index()
    return _least_seconds(5, lambda: index.search(vectors[:1], 64, threads=1)) / vectors.size


def _least_seconds(times: int, work: Callable[[], object]) -> float:
    """Return the least of several times: longer ones include other work on the machine."""

    def time_once() -> float:
        began = perf_counter()
        work()
        return perf_counter() - began

    return min(time_once() for _ in range(times))


def _latency(kind: AnnKind, effort: int, demand: Demand, calibration: Calibration) -> float:
    """Return the seconds for a single query, without ranking its candidates again."""
    code = _code_of(kind.factory)
    compare = demand.dimensions * calibration.compare[code.like] + code.beside
    if kind.kind == "hnsw":
        return effort * _WALK
    if kind.kind != "ivf":
        return demand.rows * compare
    searched = min(1.0, _LENGTH_OF_A_SEARCHED_LIST * effort / kind.lists) * demand.rows
    return kind.lists * _stored_components(kind, demand) * calibration.compare["Flat"] + searched * compare


def _build_seconds(kind: AnnKind, demand: Demand, calibration: Calibration) -> float:
    """Return the seconds for computing the lists, assigning every vector to one, and encoding it."""
    if kind.kind == "hnsw":
        return demand.rows * _LINK
    products = _list_products(kind.lists, demand.rows, _stored_components(kind, demand))
    projecting = demand.rows * demand.dimensions * kind.components
    return (products + projecting) * calibration.product + demand.rows * demand.dimensions * _ENCODE


def _stored_components(kind: AnnKind, demand: Demand) -> int:
    """Return the number of components of a stored vector."""
    return kind.components or demand.dimensions


def _list_products(lists: int, rows: int, components: int) -> float:
    """Return the multiplications: the sample with every centroid in each round, then every vector time_once."""
    return (ITERATIONS * POINTS_A_LIST * lists + rows) * float(lists) * components


# ── Estimates of an index's size from the manifests and files of its logs, for planning before building ───────────────

_LENGTH_BYTES: Final = 4  # before each text of a Parquet column
_BYTES_A_TOKEN: Final = 4.7  # of dialogue in English, spaces included
# Heaps' law through two logs of 2.5 and 77 million words (35 and 262 thousand distinct): 6.1 · words ** 0.587
_HEAPS: Final = (6.1, 0.587)


def demand_of(places: Places, logs: Sequence[str], *, vectors: str | None, encoder: Path | str | None) -> Demand:
    """Estimate the contents of an index; utterances that several logs share count twice here, but once in a build."""
    opened = [StoredLog.open(places.logs, name) for name in logs]
    totals = {
        name: sum(log.manifest.totals.get(name, 0) for log in opened)
        for name in ("pairs", "distinct_pairs", "distinct_utterances")
    }
    bytes_read = sum(_text_bytes(log) for log in opened)
    # An index stores each distinct utterance and each distinct pair once.
    text_bytes = round(
        bytes_read * (totals["distinct_utterances"] + totals["distinct_pairs"]) / max(1, 2 * totals["pairs"])
    )
    tokens = round(text_bytes / _BYTES_A_TOKEN)
    words, dimensions = _vector_shape(places, vectors, encoder)
    return Demand(
        rows=totals["distinct_utterances"],
        dimensions=dimensions,
        words=words,
        extra_words=max(0, round(_HEAPS[0] * tokens ** _HEAPS[1]) - words),
        pairs=totals["distinct_pairs"],
        occurrences=totals["pairs"],
        text_bytes=text_bytes,
        tokens=tokens,
        keeps_vectors=encoder is not None,
    )


def _vector_shape(places: Places, vectors: str | None, encoder: Path | str | None) -> tuple[int, int]:
    """Return how many words have a vector, and the number of dimensions."""
    if encoder is not None:
        return 0, encoder_source(places, encoder).dimensions
    assert vectors is not None
    with places.vectors.open(vectors) as held:
        opened = open_vectors_version(held)
        return len(opened.words), opened.dimensions


def _text_bytes(log: StoredLog) -> int:
    """Return the bytes of all utterances and responses, from the files' footers."""
    total = 0
    for path in log.paths:
        footer = pq.read_metadata(path)
        names = [footer.schema.column(place).name for place in range(footer.num_columns)]
        text_columns = [place for place, name in enumerate(names) if name in ("utterance", "response")]
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group)
            total += sum(
                rows.column(place).total_uncompressed_size - _LENGTH_BYTES * rows.num_rows for place in text_columns
            )
    return total
