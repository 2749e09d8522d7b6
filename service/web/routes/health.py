"""Whether the process lives, whether it is ready, and its figures."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from core.errors import Later, RefaugError
from core.version import VERSION
from service import observe
from service.keys import Scope
from service.web.answers import json_answer
from service.web.deps import requires
from service.web.openapi import errors
from service.web.problems import Details
from service.web.schemas.catalogue import HealthOut, ReadyOut
from service.web.state import State, state_of

router = APIRouter(tags=["health"])


class NotReady(Later, Details):
    """The service is starting: something is still being opened or compiled."""

    code = "not_ready"

    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"not ready yet: {', '.join(missing)}", remedy="ask again in a moment")
        self.details = {"missing": missing}


@router.get("/healthz", responses={200: {"model": HealthOut}})
async def get_health() -> Response:
    """The process lives, and answers."""
    return json_answer({"status": "ok", "version": VERSION})


@router.get("/readyz", responses={200: {"model": ReadyOut}, **errors(503)})
async def get_readiness(request: Request) -> Response:
    """Whether what is published is open and warm; else 503, and `missing` names what is not.

    Of several processes each waits for all that take requests, so that none of them says 503 after that. What cannot be
    opened while an older version serves is told under `troubles`, and the service stays ready.
    """
    state = state_of(request)
    missing = lacking(state)
    if not missing and state.serve.workers > 1:
        opening = await run_in_threadpool(state.presence.opening)
        missing = ["another process of this server"] if opening else []
    if missing:
        raise NotReady(missing)
    engine, troubles = state.engines.current, state.engines.problems()
    return json_answer(
        {
            "status": "ready",
            "versions": {kind: dict(named) for kind, named in engine.versions().items()},
            "troubles": {what: state.without_paths(why) for what, why in troubles.items()},
        }
    )


def lacking(state: State) -> list[str]:
    """What requests would have to wait for, or would not get at all."""
    engine = state.engines.current
    if not engine.has_looked:
        return [*state.warming, "indexes and raters"]
    serving = {f"{kind} {name}" for kind, name in engine.opened}
    return [*state.warming, *(what for what in engine.troubles if what not in serving)]


@router.get(
    "/metrics",
    response_class=Response,
    dependencies=[Depends(requires(Scope.READ))],
    responses={
        200: {
            "description": "Figures in Prometheus' text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def get_figures(request: Request) -> Response:
    """Requests, latencies, the queue, versions and their age, jobs, alerts: for Prometheus."""
    body = await run_in_threadpool(_figures, state_of(request))
    return Response(body, headers={"Content-Type": observe.CONTENT_TYPE})


def _figures(state: State) -> bytes:
    engine = state.engines.current
    jobs = failing = None
    with suppress(RefaugError):  # then they are absent, and refaug_database_up is 0
        jobs, failing = state.jobs.counts(), state.schedules.failing()
    return observe.exposition(
        observe.Now(
            home=state.home,
            versions=engine.versions(),
            troubles=state.engines.problems(),
            processes=len(state.presence.live()),
            jobs=jobs,
            failing=failing,
        )
    )
