"""The app: its parts are made when it starts and let go when it stops; requests meet the gate, the routes, the parts.

Starting waits for nothing that may take long: indexes are opened and kernels compiled in threads, so that /healthz
answers at once and /readyz tells what is missing. A database that is gone keeps nobody from scoring.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware

from core.errors import RefaugError
from core.records import Item, Origin, Reference, TestPair
from core.version import VERSION
from service import observe
from service.asked_metrics import Bases, metrics_of
from service.batching import Batcher
from service.database import Database
from service.engine import Engines, Watcher
from service.evaluate import evaluate
from service.idempotency import Idempotency
from service.job_store import JobStore
from service.keys import KeyRing, Rates
from service.posted import Posted
from service.presence import Presence
from service.retrieval import cores, places_of
from service.ruber_scores import HeldRubers
from service.schedules import Schedules
from service.scores import ScoreSettings
from service.serve_settings import ServeSettings
from service.set_scoring import HeldSets
from service.settings import Settings
from service.web import problems
from service.web.gate import Gate
from service.web.heads import Heads
from service.web.openapi import document, operation_id
from service.web.routes import (
    artefacts,
    catalogue,
    health,
    jobs,
    logs,
    pages,
    ratings,
    reference_sets,
    references,
    schedules,
    scores,
)
from service.web.state import State

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
    {"name": "reference-sets", "description": "Frozen references, so that scores keep their meaning."},
    {"name": "logs", "description": "Dialogues that references are found in."},
    {"name": "indexes", "description": "Versions of indexes, and which one serves."},
    {"name": "raters", "description": "Versions of raters, and which one serves."},
    {"name": "jobs", "description": "Work that takes longer than a request."},
    {"name": "schedules", "description": "Jobs that begin by the clock."},
    {"name": "health", "description": "How the service is."},
    {"name": "about", "description": "What answers mean."},
)
# Measured on references of 500 items, 2.4 MB: level 1 leaves 16 % in 8 ms, 3 leaves 14 % in 10 ms, 6 11 % in 24 ms.
_GZIP_LEVEL: Final = 1
_GZIP_LEAST: Final = 1_024
# Made and not let go, until they are searched for garbage. A request makes a thousand or two, which all go with it.
_NEW_OBJECTS: Final = 50_000
_ROUTERS: Final = (
    references,
    scores,
    ratings,
    catalogue,
    reference_sets,
    logs,
    artefacts,
    jobs,
    schedules,
    health,
    pages,
)


def from_env() -> FastAPI:
    """The app of a web process, from the environment that the server has set for it."""
    app = create_app(Settings.from_env(), ServeSettings.from_env())
    gc.collect()
    gc.freeze()  # what was imported stays: each search of it for garbage would stop all threads for half a second
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
    return app


def create_app(home: Settings, serve: ServeSettings) -> FastAPI:
    """The app over a home; nothing is opened before it starts."""
    app = FastAPI(
        title="refaug",
        version=VERSION,
        openapi_url=None,  # these three are routes of ours: they fetch nothing from elsewhere
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,
    )
    app.state.refaug = State(home=home, serve=serve, threads=max(1, cores() // serve.workers))
    problems.install(app)
    for module in _ROUTERS:
        app.include_router(module.router)
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_LEAST, compresslevel=_GZIP_LEVEL)
    app.add_middleware(Heads)
    app.add_middleware(Gate, state=app.state.refaug)  # the last one added is the outermost
    app.openapi = _made_once(partial(document, app, description=_DESCRIPTION, tags=_TAGS))  # type: ignore[method-assign]
    return app


def _made_once(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    made, lock = list[dict[str, Any]](), threading.Lock()

    def get() -> dict[str, Any]:
        with lock:
            if not made:
                made.append(make())
        return made[0]

    return get


# ── its life ──────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make the parts, each with how it is let go; the last one made goes first."""
    state: State = app.state.refaug
    home, serve = state.home, state.serve
    async with AsyncExitStack() as stack:
        state.database = Database.open(home, serve.database)
        stack.callback(state.database.close)
        state.jobs = JobStore(state.database, waiting_jobs=serve.waiting_jobs, tries=serve.job_tries)
        state.schedules = Schedules(state.database)
        state.idempotency = Idempotency(state.database)
        state.posted = Posted(home, serve)
        state.keys = await run_in_threadpool(KeyRing, state.database, required=serve.keys)
        stack.callback(state.keys.close)
        state.rates = Rates(workers=serve.workers)
        state.sets = HeldSets(home, serve)
        state.bases = Bases(places_of(home).indexes)
        state.rubers = HeldRubers(home, threads=state.threads)
        state.engines = Engines(home, serve, threads=state.threads)
        stack.callback(state.engines.close)
        state.warming.append("metrics")
        state.presence = Presence(home, warming=state.warming)
        stack.callback(state.presence.close)
        watcher = Watcher(state.engines, every_s=serve.look_s, report=state.presence.report)
        watcher.start()
        stack.push_async_callback(run_in_threadpool, watcher.stop)
        state.batcher = Batcher(
            serve,
            observe=_observed,
            waiting_changed=observe.queue,
            looked_up=partial(observe.cache, "references"),
        )
        stack.push_async_callback(state.batcher.close, serve.shutdown_s)
        warming = threading.Thread(target=_warm, args=(state,), name="warming", daemon=True)
        warming.start()
        stack.push_async_callback(run_in_threadpool, warming.join)
        await _let_others_answer(state)
        yield


async def _let_others_answer(state: State) -> None:
    """Take no connections while other processes have opened what requests need, and this one lacks something of it.

    So it is where one of several died and was begun again, where others were quicker, or where there is memory for one
    of them alone: it would tell its share of the clients to come again later. Of two that each lack what the other one
    has none waits, and where nobody is ready all take connections, and /readyz of each waits for all of these.
    """
    presence, until = state.presence, time.monotonic() + state.serve.start_s

    def others_serve_more() -> bool:
        engine = state.engines.current
        ours = _names(engine.versions()) if engine.has_looked and not state.warming else None
        return any(one.is_ready and (ours is None or ours < _names(one.versions)) for one in presence.live())

    def tell(*, accepts: bool) -> None:
        presence.accepts = accepts
        with suppress(RefaugError, OSError):  # the watcher tries again, and tells of it
            presence.report(state.engines.current)

    def has_begun() -> bool:
        if others_serve_more():
            return False
        tell(accepts=True)  # before the second look: whoever is ready by then hears of us, or we of them
        if others_serve_more():
            tell(accepts=False)
            return False
        return True

    while health.lacking(state) and time.monotonic() < until:
        if await run_in_threadpool(has_begun):
            return
        await asyncio.sleep(state.serve.look_s)
    await run_in_threadpool(partial(tell, accepts=True))


def _names(versions: Mapping[str, Mapping[str, str]]) -> set[tuple[str, str]]:
    return {(kind, name) for kind, named in versions.items() for name in named}


def _observed(stage: str, seconds: float, items: int) -> None:
    observe.stage(stage, seconds, items)


def _warm(state: State) -> None:
    """Compile what scores, or read what was compiled before, by scoring one reply."""
    begun = time.perf_counter()
    pair = TestPair(
        id="warm",
        turns=("is it warm",),
        references=(Reference(text="it is warm"), Reference(text="it is", source=Origin.RETRIEVED, weight=0.5)),
    )
    try:
        evaluate([Item(pair=pair, replies={"a": "it is warm now"})], metrics_of(["upsilon-bleu"], None), _NO_DRAWS)
    except Exception as error:
        log.exception("not warm", extra={"why": type(error).__name__})
        return  # it stays unready, and says so
    state.warming.remove("metrics")
    log.info("warm", extra={"seconds": round(time.perf_counter() - begun, 3)})


_NO_DRAWS: Final = ScoreSettings(draws=0)
