"""The plan of an index for a number of pairs: shards, memory, disk, network a query, hours and cost.

Sizes follow from a number of pairs by laws that were fitted to synthetic logs of at most 2.5 million pairs: distinct
utterances, pairs and words grow as powers. A stored log can take the place of these logs. CPU seconds are those of the
stages of a build with one thread on one core, each in proportion to what its work grows with. `bench/bench_cluster.py`
measures all of them and compares what they predict with a larger log; the machine was of that bench, and another one
has other seconds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Final, Self

from refaug.core.errors import Usage
from refaug.indexer.building.order import MOST_SHARDS
from refaug.indexer.building.plan import Calibration, Demand, Limits, Option, choose, options
from refaug.indexer.nearest.index_builder import ITERATIONS, POINTS_A_LIST
from refaug.indexer.nearest.index_kinds import AnnKind
from refaug.indexer.search.candidates.pool import asked_width, likely_part

_GROUPED_TEXT: Final = 0.55  # of the bytes of texts, compressed, as measured
_GROUPED_ROW: Final = 35  # bytes of keys, ids and positions, compressed, as measured
_USABLE: Final = 0.8  # of a node's memory; the rest is the system's, and mapped pages
_TABLE_MEMORY: Final = 2 << 30  # of the stage that sorts, as `--memory` has it
PROCESS: Final = 250_000_000  # bytes of a task's process with its modules and compiled kernels, as measured
NODE_PROCESSES: Final = 130_000_000  # of Ray's own processes on a node that takes tasks, as measured
_SECONDS_A_MONTH: Final = 730 * 3600
_QUERY_WORDS: Final = 12
_QUESTION_BYTES: Final = 1_150  # to a shard, beside vector and words: settings, and the names of all arrays
_CANDIDATE_BYTES: Final = 32  # row, hash and key, similarities of the code and of the finer comparison
_AHEAD_BYTES: Final = 3_900  # pairs and texts that a shard sends unasked, as measured for four shards
_MOST_PAIRS: Final = 10**13
_CODES: Final = ("Flat", "SQfp16", "SQ8", "RaBitQfs", "PQfs")  # of a calibration


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A number that grows with a power of another one."""

    factor: float
    power: float

    def at(self, size: float) -> float:
        """Return the number at a size."""
        return self.factor * float(size**self.power)

    def through(self, size: float, number: float) -> Self:
        """Return the same power through another point."""
        return replace(self, factor=number / size**self.power)


@dataclass(frozen=True, kw_only=True)
class LogShape:
    """How the contents of a log grow with its pairs."""

    utterances: Growth  # distinct ones, of the pairs
    pairs: Growth  # distinct ones, of the pairs
    words: Growth  # distinct ones, of the words
    tokens: float  # of an utterance or a response
    text_bytes: float  # of an utterance or a response

    def demand(self, pairs: int, *, dimensions: int, words: int) -> Demand:
        """Return what an index of so many pairs holds."""
        utterances, distinct = (min(pairs, round(growth.at(pairs))) for growth in (self.utterances, self.pairs))
        tokens = round(self.tokens * (utterances + distinct))
        return Demand(
            rows=utterances,
            dimensions=dimensions,
            words=words,
            extra_words=max(0, round(self.words.at(tokens)) - words),
            pairs=distinct,
            occurrences=pairs,
            text_bytes=round(self.text_bytes * (utterances + distinct)),
            tokens=tokens,
        )


@dataclass(frozen=True, kw_only=True)
class StageSeconds:
    """CPU seconds of a build on one core, by what each stage grows with."""

    occurrence: float  # reading the log, grouping and sorting
    token: float  # words as codes
    trained_product: float  # a multiplication and an addition while lists are found
    added_product: float  # the same while vectors are put into lists
    component: float  # of a vector: embedding, projecting, encoding, comparing with the check's queries
    bm25_token: float
    byte: float  # hashing what was written
    fixed: float

    def of(self, demand: Demand, option: Option) -> dict[str, float]:
        """Return the seconds of each stage."""
        kind = AnnKind.of(option.factory, demand.dimensions)
        components = kind.components or demand.dimensions
        return {
            "table": self.occurrence * demand.occurrences,
            "words": self.token * demand.tokens,
            "train": self.trained_product * ITERATIONS * POINTS_A_LIST * float(kind.lists) ** 2 * components,
            "vectors": self.added_product * float(demand.rows) * kind.lists * components
            + self.component * float(demand.rows) * demand.dimensions,
            "bm25": self.bm25_token * demand.tokens,
            "rest": self.byte * option.disk + self.fixed,
        }


# from bench/results/cluster.json, under `model`
SHAPE: Final = LogShape(
    utterances=Growth(factor=1.103, power=0.9753),
    pairs=Growth(factor=1.035, power=0.9969),
    words=Growth(factor=15.58, power=0.5339),
    tokens=11.47,
    text_bytes=43.17,
)
SECONDS: Final = StageSeconds(
    occurrence=6.553e-06,
    token=4.458e-08,
    trained_product=3.316e-11,
    added_product=9.553e-11,
    component=1.199e-07,
    bm25_token=2.164e-08,
    byte=1.18e-10,
    fixed=1.914,
)
DISK: Final = 0.9619  # bytes of the files, as a share of what the plan of one machine computes


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The machines that an index is planned for."""

    nodes: int
    memory: int  # bytes of each
    cores: int = 8  # of each
    gigabits: float = 10.0  # a second between any two
    price: float | None = None  # of a node for an hour
    most_cost: float | None = None  # of a build

    def __post_init__(self) -> None:
        """Refuse machines that do not exist."""
        if not 1 <= self.nodes <= MOST_SHARDS:
            raise Usage(f"{self.nodes} nodes cannot be planned for", remedy=f"1 to {MOST_SHARDS:,}")
        if self.cores < 1 or self.memory <= 0 or not self.gigabits > 0:
            raise Usage("a node has cores, memory and a network", remedy="give more than 0 of each")
        if self.price is not None and not self.price >= 0:
            raise Usage(f"a node does not cost {self.price:g} an hour", remedy="give 0 or more")
        if self.most_cost is not None and self.price is None:
            raise Usage("--most-cost needs the price of a node", remedy="--price, for an hour of one node")


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """What an index of so many pairs takes."""

    demand: Demand
    option: Option  # of all vectors as one index
    shards: int
    at_once: int  # shards built at the same time on a node
    build_memory: int  # of a node, at most
    serving_memory: int  # of a node
    disk: int  # of the version
    shared_disk: int  # of the folder that all machines mount, with the version before and the one that is built
    node_disk: int  # of a node that serves: copies of its shards, of the version before as well
    shuffled: int  # bytes that nodes write into that folder and read again while rows are grouped by shard
    query_bytes: int  # of a query, to and from all shards
    cpu_seconds: dict[str, float]  # by stage, on one core like that of the bench
    build_hours: float
    build_cost: float | None
    month_cost: float | None  # of serving

    def as_json(self) -> dict[str, object]:
        """Return the plan as the command prints it."""
        return asdict(self)


def plan_cluster(
    pairs: int,
    cluster: Machines,
    limits: Limits | None = None,
    *,
    shape: LogShape = SHAPE,
    dimensions: int = 200,
    words: int = 200_000,
    calibration: Calibration | None = None,
) -> ClusterPlan:
    """Plan an index of so many pairs; Usage says how many nodes would be enough, or what the build would cost.

    The speed of comparing codes, on which only the time of a search depends, is measured here unless it is given.
    """
    if not 1 <= pairs <= _MOST_PAIRS:
        raise Usage(f"an index of {pairs:,} pairs cannot be planned", remedy="1 to 1e13")
    limits = limits or Limits()
    demand = shape.demand(pairs, dimensions=dimensions, words=words)
    measured = calibration or Calibration.measure(1, dimensions)
    speed = replace(measured, product=SECONDS.added_product / (cluster.nodes * cluster.cores))
    option = choose(options(demand, limits, calibration=speed), limits)
    option = replace(option, disk=round(DISK * option.disk))
    shards, serving, building = _shards(demand, option, cluster)
    at_once = max(
        1, min(cluster.cores, shards // cluster.nodes, int((_USABLE * cluster.memory - NODE_PROCESSES) / building))
    )
    seconds = SECONDS.of(demand, option)
    grouped = round(demand.occurrences * (_GROUPED_TEXT * 2 * shape.text_bytes + _GROUPED_ROW))
    shuffled = 2 * grouped
    hours = _hours(seconds, shuffled, cluster)
    cost = None if cluster.price is None else hours * cluster.nodes * cluster.price
    if cost is not None and cluster.most_cost is not None and cost > cluster.most_cost:
        raise Usage(
            f"the build would cost {cost:,.2f}: {hours:.2f} hours of {cluster.nodes} nodes at {cluster.price:g} an "
            f"hour; {cluster.most_cost:g} are allowed",
            remedy="allow more, or fewer pairs, dimensions, or a lower --recall",
        )
    return ClusterPlan(
        demand=demand,
        option=option,
        shards=shards,
        at_once=at_once,
        build_memory=NODE_PROCESSES + at_once * building,
        serving_memory=serving,
        disk=option.disk,
        shared_disk=2 * option.disk + grouped,
        node_disk=2 * ceil(option.disk / cluster.nodes),
        shuffled=shuffled,
        query_bytes=query_bytes_of(demand.dimensions, option.depth, shards),
        cpu_seconds={stage: round(spent, 1) for stage, spent in seconds.items()},
        build_hours=hours,
        build_cost=cost,
        month_cost=None if cluster.price is None else cluster.price * cluster.nodes * _SECONDS_A_MONTH / 3600,
    )


def _shards(demand: Demand, option: Option, cluster: Machines) -> tuple[int, int, int]:
    """Return the least number of shards, as many on each node, with a node's memory for serving and for a build."""
    usable, a_node = _USABLE * cluster.memory, 1
    kind = AnnKind.of(option.factory, demand.dimensions)
    of_lists = kind.lists * kind.list_bytes
    words = _word_memory(demand, option)
    while True:
        shards = a_node * cluster.nodes
        shard = _share(demand, shards)
        serving = words + a_node * (shard.rows * (kind.row_bytes + kind.reranking_bytes) + of_lists)
        if serving > usable:
            nodes = f"{cluster.nodes} node{'' if cluster.nodes == 1 else 's'} with {cluster.memory / 2**30:.4g} GiB"
            raise Usage(
                f"{nodes} cannot serve {demand.rows:,} utterances: {serving / 2**30:.4g} GiB are needed on each",
                remedy=_enough(demand, kind, words + a_node * of_lists, cluster),
            )
        building = PROCESS + max(_TABLE_MEMORY, vector_memory(demand, option, shards))
        if NODE_PROCESSES + building <= usable:
            return shards, serving, building
        a_node += 1
        if a_node * cluster.nodes > MOST_SHARDS:
            raise Usage(
                f"a build takes {building / 2**30:.4g} GiB at least, and a node has {cluster.memory / 2**30:.4g}",
                remedy="nodes with more memory, or a lower --recall",
            )


def vector_memory(demand: Demand, option: Option, shards: int) -> int:
    """Return the peak memory of training for all shards or of adding the vectors of one, beside the process."""
    lists = AnnKind.of(option.factory, demand.dimensions).lists
    sample = 2 * 4 * demand.dimensions * min(demand.rows, POINTS_A_LIST * lists)
    return max(_build_memory(_share(demand, shards), option), _word_memory(demand, option) + sample)


def _word_memory(demand: Demand, option: Option) -> int:
    """Return the memory of the words, which every task and every node has whole."""
    kind = AnnKind.of(option.factory, demand.dimensions)
    return option.memory - demand.rows * (kind.row_bytes + kind.reranking_bytes) - kind.lists * kind.list_bytes


def _share(demand: Demand, shards: int) -> Demand:
    """Return what one of so many shards holds; all have the same words."""
    numbers = ("rows", "pairs", "occurrences", "text_bytes", "tokens")
    return replace(demand, **{name: ceil(getattr(demand, name) / shards) for name in numbers})


def _build_memory(shard: Demand, option: Option) -> int:
    """Return the peak memory of adding a shard's vectors to what was trained on all."""
    limits = Limits(factory=option.factory, recall=0.01)
    [of_shard] = options(shard, limits, calibration=Calibration(product=0.0, compare=dict.fromkeys(_CODES, 0.0)))
    return of_shard.build_memory


def _enough(demand: Demand, kind: AnnKind, fixed: int, cluster: Machines) -> str:
    """Return how many nodes of this memory could serve everything."""
    free = _USABLE * cluster.memory - fixed
    if free <= 0:
        return f"nodes with more memory: {fixed / _USABLE / 2**30:.4g} GiB are needed before the first utterance"
    nodes = ceil(demand.rows * (kind.row_bytes + kind.reranking_bytes) / free)
    return f"--nodes {nodes}, nodes with more memory, or fewer --dimensions"


def query_bytes_of(dimensions: int, depth: int, shards: int) -> int:
    """Return the bytes of one query: vector and words to every shard, candidates and what is sent ahead back."""
    question = _QUESTION_BYTES + 4 * dimensions + 4 * _QUERY_WORDS
    candidates = asked_width(likely_part(depth, 1 / shards))
    return shards * (question + candidates * _CANDIDATE_BYTES + _AHEAD_BYTES)


def _hours(seconds: dict[str, float], shuffled: int, cluster: Machines) -> float:
    """Return the hours of a build: training on all cores of one node, everything else on all, and grouped rows sent."""
    elsewhere = sum(seconds.values()) - seconds["train"]
    sending = 8 * shuffled / (cluster.nodes * cluster.gigabits * 1e9)
    return (seconds["train"] / cluster.cores + elsewhere / (cluster.nodes * cluster.cores) + sending) / 3600
