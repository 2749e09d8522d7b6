"""The application: its parts start and stop with it, and each request passes the gate, a route, and these parts.

Starting does not wait for slow work: indexes are opened and kernels compiled in threads, so that /healthz answers at
once and /readyz lists what is missing. A database that does not answer does not prevent scoring.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache, partial
from typing import Final

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware

from refaug.core.errors import RefaugError
from refaug.core.home import Settings
from refaug.core.installation import ROUTES, usable
from refaug.core.kernels.kernel import load_compiler
from refaug.core.memory import freeze_living
from refaug.core.records import Item, Origin, Reference
from refaug.core.version import VERSION
from refaug.scoring.evaluate import evaluate
from refaug.scoring.held_sets.held_set import HeldSets
from refaug.scoring.home.indexes import cores, places_of
from refaug.scoring.metric_setup.metric_requests import BaselineCache, metrics_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.settings import ScoreSettings
from refaug.service import prometheus_figures
from refaug.service.audit import AuditLog
from refaug.service.bots.bot_store import BotStore
from refaug.service.bots.bot_use import BotUseStore
from refaug.service.database.database import Database
from refaug.service.database.stored_answers import IdempotencyStore
from refaug.service.evaluations.evaluation_store import EvaluationStore, HeldViews
from refaug.service.evaluations.notes import NoteStore
from refaug.service.evaluations.uploads import UploadStore
from refaug.service.history.figure_recorder import FigureRecorder
from refaug.service.history.hourly_figures import HourlyFigures
from refaug.service.history.notices import NoticeBox
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.inbox import Inbox
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import JobStore
from refaug.service.keys import KeyPlaces, KeyRing, RateLimits, WrongKeys
from refaug.service.process.live_processes import LiveProcesses
from refaug.service.server_settings import MIB, ServeSettings
from refaug.service.serving.batches.batcher import Batcher
from refaug.service.serving.versions.open_versions import OpenVersions, VersionWatcher
from refaug.service.traces import opened_traces
from refaug.service.web import problems
from refaug.service.web.connection.admission import Gate, HeadAsGet
from refaug.service.web.connection.body import count_marks
from refaug.service.web.handling.degradation import DegradationWatch
from refaug.service.web.handling.service_sizes import measure_sizes
from refaug.service.web.openapi import openapi_document, operation_id
from refaug.service.web.routes import (
    artefacts,
    audit,
    documentation,
    health,
    jobs,
    keys,
    logs,
    pages,
    reference_sets,
    references,
    schedules,
    scores,
)
from refaug.service.web.routes.bots import replies, stored
from refaug.service.web.routes.evaluations import evaluations, scored_replies, uploads
from refaug.service.web.scoring_limits import judge_limits
from refaug.service.web.state import AddedRoutes, ServiceState

log = logging.getLogger(__name__)

_DESCRIPTION: Final = """\
How good is a reply, when many different replies would have been fine? refaug finds further references for a test pair
in dialogue logs, rates each of them, and scores replies against the weighted references.

Texts go in and come out as JSON, packed with gzip if you like. Errors are problem details (RFC 9457) with a `code` that
never changes its meaning. Every answer names its request (`request_id`, and the header `X-Request-Id`) and the versions
that made it; a score never comes without its signature.
"""
_TAGS: Final = (
    {"name": "scoring", "description": "References, ratings and scores of what comes along with the request."},
    {"name": "bots", "description": "What can reply to a dialogue, by name."},
    {"name": "reference-sets", "description": "Frozen references, so that scores keep their meaning."},
    {"name": "logs", "description": "Dialogues that references are found in."},
    {"name": "artefacts", "description": "Versions of every kind, and which one serves."},
    {"name": "jobs", "description": "Work that takes longer than a request."},
    {"name": "evaluations", "description": "Files to score, and what jobs have made of them."},
    {"name": "schedules", "description": "Jobs that begin by the clock."},
    {"name": "keys", "description": "Who may do what."},
    {"name": "audit", "description": "Who did what."},
    {"name": "health", "description": "How the service is."},
    {"name": "about", "description": "What answers mean."},
)
# Measured on references of 500 items, 2.4 MB: level 1 leaves 16 % in 8 ms, 3 leaves 14 % in 10 ms, 6 11 % in 24 ms.
_GZIP_LEVEL: Final = 1
_GZIP_MIN_BYTES: Final = 1_024
_ROUTERS: Final = (
    reference_sets,  # first: a request is compared with one route after the other, and training loops send most
    scores,
    references,
    replies,
    stored,
    logs,
    artefacts,
    jobs,
    uploads,
    evaluations,
    scored_replies,
    schedules,
    keys,
    audit,
    health,
    documentation,
    pages,
)


@cache
def added_routes() -> Mapping[str, AddedRoutes]:
    """Return what extras add, by their names."""
    return usable(ROUTES)


def from_env() -> FastAPI:
    """Return the application of a web process, configured by the environment that the server sets for it."""
    app = create_app(Settings.from_env(), ServeSettings.from_env())
    freeze_living()
    return app


def create_app(home: Settings, serve: ServeSettings) -> FastAPI:
    """Return the application over a home; nothing is opened before it starts."""
    app = FastAPI(
        title="refaug",
        version=VERSION,
        openapi_url=None,  # routes of ours serve these three without fetching anything from other sites
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,
        # its spans and logs would hold paths, queries and texts; ours are those of refaug.service.traces
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.refaug = ServiceState(home=home, serve=serve, threads=max(1, cores() // serve.workers))
    problems.install(app)
    app.state.refaug_extras = added_routes()
    extras = added_routes().values()
    for router in (*(module.router for module in _ROUTERS), *(router for added in extras for router in added.routers)):
        app.include_router(router)
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_MIN_BYTES, compresslevel=_GZIP_LEVEL)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Gate, state=app.state.refaug)  # the last middleware added is the outermost
    tags = (*_TAGS, *(tag for added in extras for tag in added.tags))
    app.openapi = _memoise(partial(openapi_document, app, description=_DESCRIPTION, tags=tags))  # type: ignore[method-assign]
    return app


def _memoise(make: Callable[[], dict[str, object]]) -> Callable[[], dict[str, object]]:
    documents, lock = list[dict[str, object]](), threading.Lock()

    def get() -> dict[str, object]:
        with lock:
            if not documents:
                documents.append(make())
        return documents[0]

    return get


# ── Start and stop ────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the parts, and stop them in reverse order."""
    state: ServiceState = app.state.refaug
    home, serve = state.home, state.serve
    async with AsyncExitStack() as stack:
        state.traces = stack.enter_context(opened_traces())
        state.database = Database.open(home, serve.database)
        stack.callback(state.database.close)
        state.jobs = JobStore(
            state.database, waiting_jobs=serve.waiting_jobs, tries=serve.job_tries, acts=JobActs(home)
        )
        state.schedules = ScheduleStore(state.database)
        state.idempotency = IdempotencyStore(state.database)
        state.inbox = Inbox(home, serve)
        state.uploads = UploadStore(home, serve)
        state.evaluations = EvaluationStore(home, serve)
        state.score_views = HeldViews(state.evaluations)
        state.notes = NoteStore(state.database)
        state.keys = await run_in_threadpool(KeyRing, state.database, required=serve.keys)
        stack.callback(state.keys.close)
        state.rate_limits = RateLimits(workers=serve.workers)
        state.wrong_keys = WrongKeys(serve.wrong_keys, workers=serve.workers)
        state.key_places = KeyPlaces(serve.key_requests)
        state.audit = AuditLog(state.database)
        stack.push_async_callback(run_in_threadpool, state.audit.close)
        await stack.enter_async_context(_watching(state))
        state.bots = BotStore(state.database, state.home)
        state.bot_use = BotUseStore.of(home)
        state.bases = BaselineCache(places_of(home).indexes)
        limits = judge_limits(serve)
        state.models = ModelRegistry(home, state.threads, allows_paths=False, judge_limits=limits)
        state.sets = HeldSets(
            state.models,
            most=serve.held_sets,
            most_bytes=serve.held_sets_mib * MIB,
            looked_up=partial(prometheus_figures.cache, "sets"),
        )
        state.open_versions = OpenVersions(home, serve, threads=state.threads)
        if state.open_versions.shards is not None:
            stack.push_async_callback(run_in_threadpool, state.open_versions.shards.close)
        stack.callback(state.open_versions.close)
        state.warming.append("metrics")
        state.processes = LiveProcesses(home, warming=state.warming)
        stack.callback(state.processes.close)
        watcher = VersionWatcher(state.open_versions, every_s=serve.look_s, report=state.processes.report)
        watcher.start()
        stack.push_async_callback(run_in_threadpool, watcher.stop)
        state.batcher = Batcher(
            serve,
            observe=_observe_stage,
            waiting_changed=prometheus_figures.queue,
            looked_up=partial(prometheus_figures.cache, "references"),
        )
        stack.push_async_callback(state.batcher.close, serve.shutdown_s)
        for name, added in added_routes().items():
            if added.running is not None:
                state.parts[name] = await stack.enter_async_context(added.running(state))
        warming = threading.Thread(target=_warm, args=(state,), name="warming", daemon=True)
        warming.start()
        stack.push_async_callback(run_in_threadpool, warming.join)
        await _wait_for_other_processes(state)
        yield


@asynccontextmanager
async def _watching(state: ServiceState) -> AsyncIterator[None]:
    """Store figures of each hour, and look for what is degraded, in threads."""
    state.hourly_figures, state.notices = HourlyFigures(state.database), NoticeBox(state.database)
    threads = FigureRecorder(state.hourly_figures, partial(measure_sizes, state)), DegradationWatch(state)
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            await run_in_threadpool(thread.stop)


async def _wait_for_other_processes(state: ServiceState) -> None:
    """Accept no connections while other processes are ready and this one lacks an artefact that they have.

    This happens where one of several processes died and was started again, where others were quicker, or where memory
    suffices for only one of them: this process would answer its share of the clients with 503. Two processes that each
    lack an artefact of the other do not wait; where none is ready all accept connections, and /readyz of each waits for
    all of them.
    """
    presence, until = state.processes, time.monotonic() + state.serve.start_s

    def others_serve_more() -> bool:
        engine = state.open_versions.served
        ours = _served_names(engine.versions()) if engine.is_loaded and not state.warming else None
        return any(one.is_ready and (ours is None or ours < _served_names(one.versions)) for one in presence.reports())

    def report(*, accepts: bool) -> None:
        presence.accepts = accepts
        with suppress(RefaugError, OSError):  # the watcher tries again, and reports the problem
            presence.report(state.open_versions.served)

    def is_accepting() -> bool:
        if others_serve_more():
            return False
        report(accepts=True)  # before the second check, so that of two processes at least one sees the other
        if others_serve_more():
            report(accepts=False)
            return False
        return True

    while health.missing_parts(state) and time.monotonic() < until:
        if await run_in_threadpool(is_accepting):
            return
        await asyncio.sleep(state.serve.look_s)
    await run_in_threadpool(partial(report, accepts=True))


def _served_names(versions: Mapping[str, Mapping[str, str]]) -> set[tuple[str, str]]:
    return {(kind, name) for kind, named in versions.items() for name in named}


def _observe_stage(stage: str, seconds: float, items: int) -> None:
    prometheus_figures.stage(stage, seconds, items)


def _warm(state: ServiceState) -> None:
    """Compile the scoring kernels, or load the compiled ones, by scoring one reply."""
    begun = time.perf_counter()
    sample = Item(
        id="warm",
        turns=("is it warm",),
        references=(Reference(text="it is warm"), Reference(text="it is", source=Origin.RETRIEVED, weight=0.5)),
        replies={"a": "it is warm now"},
    )
    try:
        load_compiler()  # one reply alone is scored without it
        count_marks(b"[]")
        evaluate([sample], metrics_of(["upsilon-bleu"], None), _NO_DRAWS)
    except Exception as error:
        log.exception("not warm", extra={"why": type(error).__name__})
        return  # the process stays unready, and /readyz says so
    state.warming.remove("metrics")
    log.info("warm", extra={"seconds": round(time.perf_counter() - begun, 3)})


_NO_DRAWS: Final = ScoreSettings(draws=0)
