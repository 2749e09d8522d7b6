"""Routes for liveness, readiness, and figures: for Prometheus, and those of the last hours."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import Later, RefaugError
from refaug.core.version import VERSION
from refaug.service import prometheus_figures
from refaug.service.history.hourly_figures import FAILURES, HOURS_KEPT, JOBS_DONE, JOBS_FAILED, REQUESTS, FigureStep
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import TEXT, errors, raw, route_options
from refaug.service.web.problems import Details
from refaug.service.web.schemas.catalogue import HealthOut, ReadyOut
from refaug.service.web.schemas.figures import FiguresOut
from refaug.service.web.state import ServiceState, state_of

router = APIRouter(tags=["health"])


class NotReady(Later, Details):
    """The service is starting: something is still being opened or compiled."""

    code = "not_ready"

    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"not ready yet: {', '.join(missing)}", remedy="try again in a moment")
        self.details = {"missing": missing}


@router.get("/healthz", responses={200: {"model": HealthOut}})
async def get_health() -> Response:
    """The process lives, and answers."""
    return json_response({"status": "ok", "version": VERSION})


@router.get("/readyz", responses={200: {"model": ReadyOut}, **errors(503)})
async def get_readiness(request: Request) -> Response:
    """Whether what is published is open and warm; else 503, and `missing` names what is not.

    Of several processes each waits for all that take requests, so that none of them says 503 after that. What cannot be
    opened while an older version serves is told under `troubles`, and the service stays ready. It is not ready while a
    file of a published version is not as its manifest says.
    """
    state = state_of(request)
    missing = missing_parts(state)
    if not missing and state.serve.workers > 1:
        opening = await run_in_threadpool(state.processes.unready_pids)
        missing = ["another process of this server"] if opening else []
    if missing:
        raise NotReady(missing)
    served, troubles = state.open_versions.served, state.open_versions.problems()
    return json_response(
        {
            "status": "ready",
            "versions": {kind: dict(named) for kind, named in served.versions().items()},
            "troubles": {what: state.without_paths(why) for what, why in troubles.items()},
            "degraded": state.degraded,
        }
    )


def missing_parts(state: ServiceState) -> list[str]:
    """Return the parts that requests would wait for, or would not get."""
    served = state.open_versions.served
    if not served.is_loaded:
        return [*state.warming, "indexes and raters"]
    serving = {f"{kind} {name}" for kind, name in served.opened}
    unopened = [what for what in served.troubles if what not in serving]
    return [*state.warming, *unopened, *state.open_versions.changed_names()]


@router.get(
    "/metrics",
    response_class=Response,
    **route_options(Scope.READ, {200: raw("Figures in Prometheus' text format.", {"text/plain": TEXT})}),
)
async def get_figures(request: Request) -> Response:
    """Requests, latencies, the queue, versions and their age, jobs, alerts: for Prometheus."""
    body = await run_in_threadpool(_figures, request)
    return Response(body, headers={"Content-Type": prometheus_figures.CONTENT_TYPE})


def _figures(request: Request) -> bytes:
    state = state_of(request)
    served = state.open_versions.served
    disk = jobs = schedules = backup_age_s = notices = None
    added = list[prometheus_figures.AddedFigure]()
    counted = dict[str, list[tuple[tuple[str, ...], float]]]()
    with suppress(OSError):  # the home is gone
        disk = shutil.disk_usage(state.home.home)
    with suppress(RefaugError):  # these figures are left out then, and refaug_database_up is 0
        jobs, schedules = state.jobs.counts(), state.schedules.troubles()
        notices = state.notices.waiting()[0] if state.serve.webhook else None
    if jobs is not None:  # a damaged row costs only the figures of its kind, and a database that is away no more waits
        with suppress(RefaugError):
            if (backup := state.audit.last_whole_backup()) is not None:
                backup_age_s = max(0.0, (datetime.now(UTC) - datetime.fromisoformat(backup.at)).total_seconds())
        with suppress(RefaugError):
            counted = _bot_figures(state)
        for extra in request.app.state.refaug_extras.values():
            with suppress(RefaugError):
                added += extra.figures(state) if extra.figures is not None else ()
    return prometheus_figures.exposition(
        prometheus_figures.ServiceSnapshot(
            home=state.home,
            versions=served.versions(),
            troubles=state.open_versions.problems(),
            processes=len(state.processes.reports()),
            jobs=jobs,
            schedules=schedules,
            shards=[] if (cluster := state.open_versions.shards) is None else cluster.states(),
            backup_age_s=backup_age_s,
            notices=notices,
            disk_free=None if disk is None else disk.free,
            disk=None if disk is None else disk.total,
            counted=counted,
            added=added,
        )
    )


def _bot_figures(state: ServiceState) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    """Return what each stored bot was asked and has cost, by the names of figures; nothing where that is unknown."""
    requests, tokens, money = (list[tuple[tuple[str, ...], float]]() for _ in range(3))
    bots = state.bots.list()
    uses = state.bot_use.of_bots(bots)
    if uses is None:  # zeros would look like counters that were reset
        return {}
    for bot in bots:
        use = uses[bot.name]
        outcomes = {
            "answered": use.requests - use.unanswered,
            "unanswered": use.unanswered - use.failures,
            "failed": use.failures,
        }
        requests += [((bot.name, outcome), float(number)) for outcome, number in outcomes.items()]
        tokens.append(((bot.name,), float(use.prompt_tokens + use.answer_tokens + use.lost_tokens)))
        if bot.price is not None:
            money.append(((bot.name, bot.price.currency), use.money))
    figures = prometheus_figures
    return {figures.BOT_REQUESTS.name: requests, figures.BOT_TOKENS.name: tokens, figures.BOT_MONEY.name: money}


# ── Figures of the last hours ─────────────────────────────────────────────────────────────────────────────────────────

_BACKUPS: Final = 10


@router.get("/v1/figures", **route_options(Scope.READ, FiguresOut, 507))
async def list_figures(
    request: Request,
    hours: Annotated[int, Query(description="how many hours back, the running one among them", ge=1, le=HOURS_KEPT)] = (
        24 * 7
    ),
) -> Response:
    """Requests, latencies, failures, sizes, recall and drift of the last hours, and the newest backups.

    What a process counts is stored within 20 seconds; sizes are measured once an hour. Both are kept for 90 days.
    """
    state = state_of(request)
    (length, steps), backups = await database_threads.run_query(
        lambda: (state.hourly_figures.last(hours), state.audit.last_backups(_BACKUPS))
    )
    names = dict.fromkeys(name for step in steps for name in step.sizes.get("indexes", {}))
    return json_response(
        {
            "step_hours": length,
            "begins": [step.begin.isoformat() for step in steps],
            "requests": [step.count(REQUESTS) for step in steps],
            "failures": [step.count(FAILURES) for step in steps],
            "median_s": [step.latency(0.5) for step in steps],
            "p95_s": [step.latency(0.95) for step in steps],
            "jobs_done": [step.count(JOBS_DONE) for step in steps],
            "jobs_failed": [step.count(JOBS_FAILED) for step in steps],
            **{f"{name}_bytes": [step.sizes.get(name) for step in steps] for name in ("database", "disk_free", "disk")},
            "indexes": {name: _index_figures(steps, name) for name in names},
            "backups": [
                {
                    "at": entry.at,
                    "name": entry.subject.removeprefix("backup "),
                    "bytes": entry.details.get("bytes", 0),
                    "damaged": entry.details.get("damaged", 0),
                }
                for entry in backups
            ],
        }
    )


def _index_figures(steps: Sequence[FigureStep], name: str) -> dict[str, list[Any]]:
    by_step = [step.sizes.get("indexes", {}).get(name, {}) for step in steps]
    return {figure: [one.get(figure) for one in by_step] for figure in ("recall", "drift", "bytes", "pairs")}
