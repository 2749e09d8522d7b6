"""Figures of a running service for Prometheus, counted in every process and added up on request.

In a server every process writes its figures into files of PROMETHEUS_MULTIPROC_DIR, which the server sets before it
starts them; the web process that is asked adds all of them up. Without that variable (a test, a single application)
they stay in the process. Some figures are not counted but read on request: served versions and their age, the states of
jobs, failing schedules.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import REGISTRY, Collector

from refaug.core.artefacts.versions import CURRENT
from refaug.core.home import Settings

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"  # the library's name for it
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OTHER: Final = "other"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_MAX_REASONS: Final = 64  # distinct reasons; labels must not grow with the input
# from a request answered from memory to a large batch at the usual time limit
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ITEMS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series of each metric, which is not used

REQUESTS: Final = Counter("refaug_requests", "Requests that were answered.", ("route", "method", "status"))
LATENCY: Final = Histogram("refaug_request_seconds", "Seconds until an answer.", ("route",), buckets=_SECONDS)
STAGE: Final = Histogram("refaug_stage_seconds", "Seconds of a stage of the work.", ("stage",), buckets=_SECONDS)
BATCH: Final = Histogram("refaug_batch_items", "Items that went through a stage at once.", ("stage",), buckets=_ITEMS)
QUEUE: Final = Gauge("refaug_queue_items", "Items that wait for index and rater.", multiprocess_mode="livesum")
HITS: Final = Counter("refaug_cache_hits", "What was kept ready and could be used.", ("cache",))
MISSES: Final = Counter("refaug_cache_misses", "What had to be read or made.", ("cache",))
UNSCORED: Final = Counter("refaug_unscored", "Replies that got no score, by the code of the reason.", ("reason",))

_reasons = set[str]()


# ── counting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def request(route: str, method: str, status: int, seconds: float) -> None:
    """Count an answered request; `route` is its template, so that names in paths do not become labels."""
    REQUESTS.labels(route, method if method in _METHODS else OTHER, str(status)).inc()
    LATENCY.labels(route).observe(seconds)


def stage(name: str, seconds: float, items: int) -> None:
    """Count items that went through a stage (`queue`, `search`, `rate`, `score`) together."""
    STAGE.labels(name).observe(seconds)
    BATCH.labels(name).observe(items)


def queue(items: int) -> None:
    """Set the number of items that wait in this process."""
    QUEUE.set(items)


def cache(name: str, hits: int, misses: int) -> None:
    """Count hits and misses of a cache."""
    if hits:
        HITS.labels(name).inc(hits)
    if misses:
        MISSES.labels(name).inc(misses)


def unscored(reasons: Mapping[str, int]) -> None:
    """Count replies without a score, by the code of the reason."""
    for reason, count in reasons.items():
        if reason not in _reasons and len(_reasons) < _MAX_REASONS:
            _reasons.add(reason)
        UNSCORED.labels(reason if reason in _reasons else OTHER).inc(count)


def forget_process(process: int) -> None:
    """Remove the waiting items of a process that has ended; its counters stay."""
    if os.environ.get(FOLDER_VARIABLE):
        mark_process_dead(process)  # type: ignore[no-untyped-call]


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ServiceSnapshot:
    """The state of the service at this moment; None where the database does not answer."""

    home: Settings
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # {"index": {"chat": "2026-11-20.1"}}
    troubles: Mapping[str, str] = field(default_factory=dict)  # {"index chat": "why it could not be opened"}
    processes: int = 0  # web processes that live
    jobs: Mapping[str, int] | None = None  # how many are in which state
    failing: Mapping[str, str] | None = None  # {"nightly": "why its last job published nothing"}


def exposition(snapshot: ServiceSnapshot) -> bytes:
    """Return all figures in the text format of Prometheus; reads files, so not for the event loop."""
    folder = os.environ.get(FOLDER_VARIABLE)
    registry = CollectorRegistry()
    registry.register(_SnapshotCollector(snapshot, time.time()))
    if not folder:
        return generate_latest(REGISTRY) + generate_latest(registry)
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


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
        has_database = self.snapshot.jobs is not None and self.snapshot.failing is not None
        yield _gauge("refaug_database_up", "1 if the database answers.", (), [((), int(has_database))])
        if self.snapshot.jobs is not None:
            states = (((str(state),), count) for state, count in self.snapshot.jobs.items())
            yield _gauge("refaug_jobs", "Jobs in each state.", ("state",), states)
        if self.snapshot.failing is not None:
            yield _gauge(
                "refaug_schedule_failing",
                "1 for every schedule whose last job failed, or built something that was not published.",
                ("schedule",),
                (((name,), 1) for name in self.snapshot.failing),
            )

    def _age(self, kind: str, name: str) -> float | None:
        """Return the seconds since the version was published; None if the file that says so is gone."""
        folder = {"index": self.snapshot.home.indexes, "rater": self.snapshot.home.raters}.get(kind)
        try:
            return None if folder is None else max(0.0, self.at - (folder / name / CURRENT).stat().st_mtime)
        except OSError:
            return None


def _gauge(
    name: str, says: str, labels: tuple[str, ...], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=labels)
    for label_values, number in values:
        family.add_metric(label_values, number)
    return family
