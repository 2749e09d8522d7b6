"""Figures of a running service, for Prometheus: counted in every process, added up when they are asked for.

In a server every process writes its figures into files of PROMETHEUS_MULTIPROC_DIR, which the server has set before it
starts them; whichever web process is asked adds all of them up. Without that variable (a test, a single app) they stay
in the process. What somebody else knows better is not counted but read when it is asked for: which versions are served
and since when, the states of the jobs, schedules that fail.
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

from core.versions import CURRENT
from service.settings import Settings

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"  # the library's own name for it
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OTHER: Final = "other"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_REASONS: Final = 64  # distinct ones; a label must not grow with what people send
# from a question that is answered from memory to a large batch at the usual time limit
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ITEMS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every one, which nobody looks at

REQUESTS: Final = Counter("refaug_requests", "Requests that were answered.", ("route", "method", "status"))
LATENCY: Final = Histogram("refaug_request_seconds", "Seconds until an answer.", ("route",), buckets=_SECONDS)
STAGE: Final = Histogram("refaug_stage_seconds", "Seconds of a stage of the work.", ("stage",), buckets=_SECONDS)
BATCH: Final = Histogram("refaug_batch_items", "Items that went through a stage at once.", ("stage",), buckets=_ITEMS)
QUEUE: Final = Gauge("refaug_queue_items", "Items that wait for index and rater.", multiprocess_mode="livesum")
HITS: Final = Counter("refaug_cache_hits", "What was kept ready and could be used.", ("cache",))
MISSES: Final = Counter("refaug_cache_misses", "What had to be read or made.", ("cache",))
UNSCORED: Final = Counter("refaug_unscored", "Replies that got no score, by the code of the reason.", ("reason",))

_reasons = set[str]()


# ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────────


def request(route: str, method: str, status: int, seconds: float) -> None:
    """A request was answered; `route` is its template, so that names in paths make no figures of their own."""
    REQUESTS.labels(route, method if method in _METHODS else OTHER, str(status)).inc()
    LATENCY.labels(route).observe(seconds)


def stage(name: str, seconds: float, items: int) -> None:
    """So many items went through a stage (`queue`, `search`, `rate`, `score`) together."""
    STAGE.labels(name).observe(seconds)
    BATCH.labels(name).observe(items)


def queue(items: int) -> None:
    """So many items wait in this process now."""
    QUEUE.set(items)


def cache(name: str, hits: int, misses: int) -> None:
    """What was asked of something kept ready: so often it was there, and so often not."""
    if hits:
        HITS.labels(name).inc(hits)
    if misses:
        MISSES.labels(name).inc(misses)


def unscored(reasons: Mapping[str, int]) -> None:
    """So many replies got no score, by the code of the reason."""
    for reason, count in reasons.items():
        if reason not in _reasons and len(_reasons) < _REASONS:
            _reasons.add(reason)
        UNSCORED.labels(reason if reason in _reasons else OTHER).inc(count)


def ended(process: int) -> None:
    """A process of the server is gone: what it had waiting no longer counts; what it did goes on counting."""
    if os.environ.get(FOLDER):
        mark_process_dead(process)  # type: ignore[no-untyped-call]


# ── what is true when somebody asks ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Now:
    """What the process that is asked knows of this moment; None: the database could not be asked."""

    home: Settings
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # {"index": {"chat": "2026-11-20.1"}}
    troubles: Mapping[str, str] = field(default_factory=dict)  # {"index chat": "why it could not be opened"}
    processes: int = 0  # web processes that live
    jobs: Mapping[str, int] | None = None  # how many are in which state
    failing: Mapping[str, str] | None = None  # {"nightly": "why its last job published nothing"}


def exposition(now: Now) -> bytes:
    """Everything in the text format of Prometheus; reads files, so not for the event loop."""
    folder = os.environ.get(FOLDER)
    registry = CollectorRegistry()
    registry.register(_Read(now, time.time()))
    if not folder:
        return generate_latest(REGISTRY) + generate_latest(registry)
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


@dataclass(frozen=True, eq=False)
class _Read(Collector):
    """The figures that are read, not counted."""

    now: Now
    at: float

    def collect(self) -> Iterable[Metric]:
        """Each with all its labels; what is not known now is left out, not shown as 0."""
        yield _gauge("refaug_web_processes", "Web processes that live.", (), [((), self.now.processes)])
        served = [(kind, name, version) for kind, named in self.now.versions.items() for name, version in named.items()]
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
            (((what,), 1) for what in self.now.troubles),
        )
        has_database = self.now.jobs is not None and self.now.failing is not None
        yield _gauge("refaug_database_up", "1 if the database answers.", (), [((), int(has_database))])
        if self.now.jobs is not None:
            states = (((str(state),), count) for state, count in self.now.jobs.items())
            yield _gauge("refaug_jobs", "Jobs in each state.", ("state",), states)
        if self.now.failing is not None:
            yield _gauge(
                "refaug_schedule_failing",
                "1 for every schedule whose last job failed, or built something that was not published.",
                ("schedule",),
                (((name,), 1) for name in self.now.failing),
            )

    def _age(self, kind: str, name: str) -> float | None:
        """Since the file that says which version is published was written; None where it is gone meanwhile."""
        folder = {"index": self.now.home.indexes, "rater": self.now.home.raters}.get(kind)
        try:
            return None if folder is None else max(0.0, self.at - (folder / name / CURRENT).stat().st_mtime)
        except OSError:
            return None


def _gauge(
    name: str, says: str, labels: tuple[str, ...], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family
