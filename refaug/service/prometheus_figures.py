"""Figures of a running service for Prometheus, counted in every process and added up on request.

The web processes of a server count in memory that they share (`refaug.service.figures`): the web process that is asked
adds up the numbers of all, and those of a dead process stay. Without such memory (a test, a single application, a
system that has none) a process counts for itself. Some figures are not counted but read on request: served versions and
their age, the states of jobs, failing schedules.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache as cached
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.service.figures import TABLE_BYTES, FigureMemory, FigureTable, Series, sum_up

MEMORY_VARIABLE: Final = "REFAUG_FIGURES"  # set by the parent process of a server for its children
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OTHER: Final = "other"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_MAX_REASONS: Final = 64  # distinct reasons; labels must not grow with the input
# from a request answered from memory to a large batch at the usual time limit
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ITEMS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0)

if TYPE_CHECKING:
    from refaug.core.clusters import ShardState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CountedFigure:
    """A figure with its help and the names of its labels; with bounds it is a histogram."""

    name: str
    says: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def increase(self, *labels: str, by: float = 1.0) -> None:
        """Add to a counter."""
        _own_table().add((self.name, *labels), 1, ((0, by),))

    def observe(self, *labels: str, measured: float) -> None:
        """Count a measurement in its bucket of a histogram, and add it to the sum, which is the last number."""
        bucket, total = bisect_left(self.bounds, measured), len(self.bounds) + 1
        _own_table().add((self.name, *labels), total + 1, ((bucket, 1.0), (total, measured)))


REQUESTS: Final = CountedFigure("refaug_requests", "Requests that were answered.", ("route", "method", "status"))
LATENCY: Final = CountedFigure("refaug_request_seconds", "Seconds until an answer.", ("route",), _SECONDS)
STAGE: Final = CountedFigure("refaug_stage_seconds", "Seconds of a stage of the work.", ("stage",), _SECONDS)
BATCH: Final = CountedFigure("refaug_batch_items", "Items that went through a stage at once.", ("stage",), _ITEMS)
QUEUE: Final = CountedFigure("refaug_queue_items", "Items that wait for index and rater.")
HITS: Final = CountedFigure("refaug_cache_hits", "What was kept ready and could be used.", ("cache",))
MISSES: Final = CountedFigure("refaug_cache_misses", "What had to be read or made.", ("cache",))
UNSCORED: Final = CountedFigure("refaug_unscored", "Replies that got no score, by the code of the reason.", ("reason",))

SHARD_CALLS: Final = CountedFigure(
    "refaug_shard_calls", "Questions to a shard on a cluster: answered, hedged or failed.", ("shard", "outcome")
)
SHARD_SECONDS: Final = CountedFigure(
    "refaug_shard_seconds", "Seconds until a shard on a cluster answered.", ("shard",), _SECONDS
)

BOT_REQUESTS: Final = CountedFigure(
    "refaug_bot_requests", "Requests to a stored bot: answered, unanswered or failed.", ("bot", "outcome")
)
BOT_TOKENS: Final = CountedFigure(
    "refaug_bot_tokens", "Tokens that a stored bot has cost, with those of tries that broke off.", ("bot",)
)
BOT_MONEY: Final = CountedFigure("refaug_bot_money", "What a stored bot has cost by its prices.", ("bot", "currency"))

_COUNTERS: Final = (REQUESTS, HITS, MISSES, UNSCORED, SHARD_CALLS)
_READ_COUNTERS: Final = (BOT_REQUESTS, BOT_TOKENS, BOT_MONEY)  # that the home has counted
_HISTOGRAMS: Final = (LATENCY, STAGE, BATCH, SHARD_SECONDS)
_GAUGES: Final = (QUEUE,)
_GAUGE_NAMES: Final = tuple(gauge.name for gauge in _GAUGES)

_claiming = threading.Lock()
_reasons = set[str]()


# ── Counting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def request(route: str, method: str, status: int, seconds: float) -> None:
    """Count an answered request; `route` is its template, so that names in paths do not become labels."""
    REQUESTS.increase(route, method if method in _METHODS else OTHER, str(status))
    LATENCY.observe(route, measured=seconds)


def stage(name: str, seconds: float, items: int) -> None:
    """Count items that went through a stage (`queue`, `search`, `rate`, `score`) together."""
    STAGE.observe(name, measured=seconds)
    BATCH.observe(name, measured=items)


def shard(name: str, outcome: str, seconds: float) -> None:
    """Count a question to a shard; the version is left out, so that labels do not grow with each."""
    label = name.partition("@")[0]
    SHARD_CALLS.increase(label, outcome)
    if outcome != "failed":
        SHARD_SECONDS.observe(label, measured=seconds)


def queue(items: int) -> None:
    """Set the number of items that wait in this process."""
    _own_table().set((QUEUE.name,), items)


def cache(name: str, hits: int, misses: int) -> None:
    """Count hits and misses of a cache."""
    if hits:
        HITS.increase(name, by=hits)
    if misses:
        MISSES.increase(name, by=misses)


def unscored(reasons: Mapping[str, int]) -> None:
    """Count replies without a score, by the code of the reason."""
    for reason, count in reasons.items():
        if reason not in _reasons and len(_reasons) < _MAX_REASONS:
            _reasons.add(reason)
        UNSCORED.increase(reason if reason in _reasons else OTHER, by=count)


def forget_process(process: int) -> None:
    """Remove the waiting items of a process that has ended; its counters stay. The process must not count itself."""
    if path := os.environ.get(MEMORY_VARIABLE):
        with FigureMemory.open(path) as memory:
            memory.forget(process, _GAUGE_NAMES)


@cached
def _shared_memory() -> FigureMemory | None:
    path = os.environ.get(MEMORY_VARIABLE)
    try:
        return FigureMemory.open(path) if path else None
    except OSError as error:
        log.warning("figures count this process alone: %s", error)
        return None


def _own_table() -> FigureTable:
    with _claiming:  # two threads that count first must not open it twice: a process gets its own locks again
        return _claimed_table()


@cached
def _claimed_table() -> FigureTable:
    memory = _shared_memory()
    try:
        if memory is not None:
            return memory.claim(_GAUGE_NAMES)
    except OSError as error:
        log.warning("figures leave this process out: %s", error)
    return FigureTable.empty(memoryview(bytearray(TABLE_BYTES)))


def own_counts() -> Mapping[Series, list[float]]:
    """Return the numbers of every series as this process, and a dead one before it, has counted them."""
    return sum_up([_own_table()])


def totals() -> Mapping[Series, list[float]]:
    """Return the numbers of every series, added up over all processes of the server."""
    with _claiming:
        memory = _shared_memory()
    return sum_up([_own_table()]) if memory is None else memory.totals()


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class AddedFigure:
    """A figure that an extra reads on request: a number for each combination of labels."""

    name: str
    says: str
    labels: tuple[str, ...]
    values: Sequence[tuple[Sequence[str], float]]


@dataclass(frozen=True, kw_only=True)
class ServiceSnapshot:
    """The state of the service at this moment; None where the database does not answer."""

    home: Settings
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # {"index": {"chat": "2026-11-20.1"}}
    troubles: Mapping[str, str] = field(default_factory=dict)  # {"index chat": "why it could not be opened"}
    processes: int = 0  # web processes that live
    jobs: Mapping[str, int] | None = None  # how many are in which state
    shards: Sequence[ShardState] = ()  # of the process that is asked
    backup_age_s: float | None = None  # None: there is none
    notices: int | None = None  # that wait for the webhook
    disk_free: int | None = None
    disk: int | None = None
    counted: Mapping[str, Sequence[tuple[Sequence[str], float]]] = field(default_factory=dict)  # by names of figures
    added: Sequence[AddedFigure] = ()
    schedules: Mapping[str, str | None] | None = None  # {"nightly": "why its last job published nothing", "well": None}


def exposition(snapshot: ServiceSnapshot) -> bytes:
    """Return all figures in the text format of Prometheus; asks the file system, so not for the event loop."""
    registry = CollectorRegistry()
    registry.register(_CountedCollector(totals()))
    registry.register(_SnapshotCollector(snapshot, time.time()))
    return generate_latest(registry)


@dataclass(frozen=True, eq=False)
class _CountedCollector(Collector):
    """Figures that are counted."""

    totals: Mapping[Series, Sequence[float]]

    def collect(self) -> Iterable[Metric]:
        """Yield each figure with all its labels."""
        for figure in _COUNTERS:
            counter = CounterMetricFamily(figure.name, figure.says, labels=figure.labels)
            for labels, numbers in self._series_of(figure):
                counter.add_metric(labels, numbers[0])
            yield counter
        for figure in _HISTOGRAMS:
            histogram = HistogramMetricFamily(figure.name, figure.says, labels=figure.labels)
            names = [*map(str, figure.bounds), "+Inf"]
            for labels, (*counts, total) in self._series_of(figure):
                histogram.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), total)
            yield histogram
        for figure in _GAUGES:
            yield _gauge(figure.name, figure.says, (), [((), self.totals.get((figure.name,), [0.0])[0])])

    def _series_of(self, figure: CountedFigure) -> Iterable[tuple[Series, Sequence[float]]]:
        for (name, *labels), numbers in sorted(self.totals.items()):
            if name == figure.name:
                yield tuple(labels), numbers


@dataclass(frozen=True, eq=False)
class _SnapshotCollector(Collector):
    """Figures that are read, not counted."""

    snapshot: ServiceSnapshot
    at: float

    def collect(self) -> Iterable[Metric]:
        """Yield each figure with all its labels; unknown ones are left out, not shown as 0."""
        yield _gauge("refaug_web_processes", "Web processes that live.", (), [((), self.snapshot.processes)])
        served = [
            (kind, name, version) for kind, named in self.snapshot.versions.items() for name, version in named.items()
        ]
        yield _gauge(
            "refaug_version_info",
            "Versions that are served.",
            ("kind", "name", "version"),
            ((one, 1) for one in served),
        )
        yield _gauge(
            "refaug_version_age_seconds",
            "Seconds since what is served was published.",
            ("kind", "name"),
            (((kind, name), age) for kind, name, _ in served if (age := self._age(kind, name)) is not None),
        )
        yield _gauge(
            "refaug_artefact_trouble",
            "1 for every index or rater that is missing or cannot be opened.",
            ("artefact",),
            (((what,), 1) for what in self.snapshot.troubles),
        )
        yield _gauge(
            "refaug_shard_replicas",
            "Processes on the cluster that have a shard open, and those of them that answer.",
            ("index", "shard", "state"),
            (
                ((one.index, one.shard, state), count)
                for one in self.snapshot.shards
                for state, count in (("started", one.replicas), ("answering", one.alive))
            ),
        )
        yield _gauge(
            "refaug_shard_machines",
            "Machines of the cluster with a process of a shard that answers.",
            ("index", "shard"),
            (((one.index, one.shard), one.machines) for one in self.snapshot.shards),
        )
        silent = Counter(
            (shard.index, shard.shard, machine) for shard in self.snapshot.shards for machine in shard.silent
        )
        yield _gauge(
            "refaug_shard_silent_replicas",
            "Processes of a shard that do not answer, by the machine that they were started on.",
            ("index", "shard", "machine"),
            silent.items(),
        )
        has_database = self.snapshot.jobs is not None and self.snapshot.schedules is not None
        yield _gauge("refaug_database_up", "1 if the database answers.", (), [((), int(has_database))])
        if self.snapshot.jobs is not None:
            states = (((str(state),), count) for state, count in self.snapshot.jobs.items())
            yield _gauge("refaug_jobs", "Jobs in each state.", ("state",), states)
        if self.snapshot.schedules is not None:
            yield _gauge(
                "refaug_schedule_failing",
                "1 for every schedule whose last job failed, or built something that was not published; else 0.",
                ("schedule",),
                (((name,), int(why is not None)) for name, why in self.snapshot.schedules.items()),
            )

        yield from self._resources()
        for read in _READ_COUNTERS:
            counter = CounterMetricFamily(read.name, read.says, labels=read.labels)
            for labels, number in self.snapshot.counted.get(read.name, ()):
                counter.add_metric(labels, number)
            yield counter
        for figure in self.snapshot.added:
            yield _gauge(figure.name, figure.says, figure.labels, figure.values)

    def _resources(self) -> Iterable[Metric]:
        now = self.snapshot
        if now.disk_free is not None and now.disk is not None:
            yield _gauge("refaug_disk_free_bytes", "Free bytes of the home's disk.", (), [((), now.disk_free)])
            yield _gauge("refaug_disk_bytes", "Size of the home's disk.", (), [((), now.disk)])
        if now.backup_age_s is not None:
            yield _gauge(
                "refaug_backup_age_seconds",
                "Seconds since the last backup was complete; absent before the first.",
                (),
                [((), now.backup_age_s)],
            )
        if now.notices is not None:
            yield _gauge("refaug_webhook_waiting", "Messages that wait for the webhook.", (), [((), now.notices)])

    def _age(self, kind: str, name: str) -> float | None:
        """Return the seconds since the version was published; None if the file that says so is gone."""
        published_at = artefact_stores(self.snapshot.home)[kind].published_at(name)
        return None if published_at is None else max(0.0, self.at - published_at.timestamp())


def _gauge(
    name: str, says: str, labels: tuple[str, ...], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=labels)
    for label_values, number in values:
        family.add_metric(label_values, number)
    return family
