"""Jobs that a request queues: their input files are checked first, and the job is the response."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from fastapi import Header, Request
from starlette.responses import Response

from refaug.bots.kinds import parse_bot
from refaug.core.errors import NoSource
from refaug.operations.operation import OwnedOperation
from refaug.service.jobs.clusters import require_cluster
from refaug.service.jobs.job_order import JobOrder, bots_in, metrics_in, resources_of
from refaug.service.jobs.kinds.sources import files_in, require_source
from refaug.service.web.answers import json_response
from refaug.service.web.dependencies import key_of
from refaug.service.web.handling import database_threads
from refaug.service.web.state import ServiceState, state_of

# ── Requests that create something and may be repeated: the same Idempotency-Key gets the same response ───────────────

IdempotencyKey = Annotated[
    str | None,
    Header(
        description="Any text that names this request, such as a UUID. Sent again with the same body within a day, it "
        "gets the first answer; with another body it is 409 `idempotency_key_reused`.",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
    ),
]

_MAX_THREADS: Final = 16
_LIMITER: Final[RunVar[CapacityLimiter]] = RunVar("refaug.service.web.handling.job_queueing")


@dataclass(frozen=True, kw_only=True)
class CreatedResource:
    """The response to a request that has created something, and the address of that."""

    status: int
    body: Mapping[str, Any] = field(repr=False)
    location: str

    def as_json(self) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the content to store."""
        return self.status, {"body": self.body, "location": self.location}

    def response(self, request: Request, *, is_again: bool = False) -> Response:
        """Return the response; a repeated one says so in a header."""
        location = f"{request.scope.get('root_path', '')}{self.location}"
        again = {"Idempotent-Replayed": "true"} if is_again else {}
        return json_response(self.body, status=self.status, headers={"Location": location, **again})


async def create_once(
    request: Request, what: str, key: str | None, raw: bytes, make: Callable[[], Awaitable[CreatedResource]]
) -> Response:
    """Return the stored response of the same key and body; without one, or without a key, that of `make`."""
    if key is None:
        return (await make()).response(request)
    loop = asyncio.get_running_loop()

    def create() -> tuple[int, Mapping[str, Any]]:
        # The store waits in a thread; the event loop creates the resource, since it has index and rater.
        return asyncio.run_coroutine_threadsafe(_await(make), loop).result().as_json()

    remember = partial(_store_call(request, what, key, raw), create)
    # Waiting threads have a limit apart, so that they do not block the ones they wait for. A client that hangs up does
    # not undo the creation: the same request again finds it.
    return _respond(request, await run_sync(remember, limiter=_limiter(), abandon_on_cancel=True))


async def create_once_in_database(
    request: Request, what: str, key: str | None, raw: bytes, make: Callable[[], CreatedResource]
) -> Response:
    """Do the same for a resource that is only a row of the database: row and response are committed together."""
    if key is None:
        return (await database_threads.run_query(make)).response(request)
    remember = _store_call(request, what, key, raw)
    return _respond(request, await database_threads.run_query(lambda: remember(lambda: make().as_json(), at_once=True)))


def _store_call(
    request: Request, what: str, key: str, raw: bytes
) -> Callable[..., tuple[int, Mapping[str, Any], bool]]:
    """Return the call of the store for one key; keys of different callers are kept apart."""
    scope, digest = f"{what} {key_of(request).id}", hashlib.sha256(raw).hexdigest()
    return partial(state_of(request).idempotency.get_or_create, scope, key, digest)


def _respond(request: Request, remembered: tuple[int, Mapping[str, Any], bool]) -> Response:
    status, content, is_again = remembered
    return CreatedResource(status=status, body=content["body"], location=content["location"]).response(
        request, is_again=is_again
    )


async def _await(make: Callable[[], Awaitable[CreatedResource]]) -> CreatedResource:
    return await make()


def _limiter() -> CapacityLimiter:
    """Return the limiter of this event loop."""
    try:
        return _LIMITER.get()
    except LookupError:
        _LIMITER.set(CapacityLimiter(_MAX_THREADS))
        return _LIMITER.get()


# ── Jobs that a request queues: their input files are checked first, and the job is the response ──────────────────────

Order = TypeVar("Order", bound=JobOrder)


def enqueue_job(state: ServiceState, order: JobOrder, requested_by: str) -> CreatedResource:
    """Queue a job; Conflict if a job of the same kind and resources waits already, TooLarge beyond a limit."""
    order.require_within(partial(getattr, state.serve))
    job = state.jobs.enqueue(order.kind, order.as_order(), resources_of(order), requested_by=requested_by)
    return CreatedResource(status=202, body=job.as_json(), location=f"/v1/jobs/{job.id}")


def with_owner(order: Order, key_name: str) -> Order:
    """Return the order, one whose outcome a key sees with the key that asks for it as its owner."""
    if isinstance(order, OwnedOperation):
        return replace(order, owner=key_name)
    return order


def require_sources(state: ServiceState, order: JobOrder, *, must_exist: bool) -> None:
    """Raise NotAllowed before the job runs for files outside the allowed folders; `must_exist`: else NoSource."""
    for text in sources_of(order):
        try:
            require_source(text, state.home, state.serve)
        except NoSource:
            if must_exist:
                raise
    state.models.require_names(metrics_in(order))


def require_clusters(state: ServiceState, order: JobOrder) -> None:
    """Raise NotAllowed before the job runs for a cluster that the settings do not name."""
    if (address := cluster_of(order)) is not None:
        require_cluster(address, state.serve)


def cluster_of(order: JobOrder) -> str | None:
    """Return the address of the cluster that an order names, or None."""
    return getattr(order, "on", None)


def require_bots(state: ServiceState, order: JobOrder) -> None:
    """Raise Usage for a wrong specification of a bot, and NotFound for a missing bot, before the job runs."""
    for text in bots_in(order):
        specification = parse_bot(text)
        if specification.is_stored:
            state.bots.get(specification.source)


def sources_of(order: JobOrder) -> list[str]:
    """Return the files and folders that an order names, with those of its metrics and its tokenizer."""
    return [*order.sources_named(), *files_in(metrics_in(order), getattr(order, "tokenizer", None))]
