"""Freezing the items of a request: at once, as the command does, or by a job where there are many.

The name of a set follows from its content to the last digit, and the last digits of a rater follow from the texts that
it has read and rates together. So references of a set are not found in batches with other requests: each set opens the
rater again and calls the same function as the command and the job. The same items make the same set.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson
from starlette.concurrency import run_in_threadpool

from refaug.core.errors import Expired, RefaugError, Usage
from refaug.core.records import Item
from refaug.evaluation.home.raters import open_rater
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import Augmented, augment, references_provenance, require_preset_index
from refaug.evaluation.scoring.items import BadItem, item_json
from refaug.evaluation.scoring.reference_sets.frozen_items import NO_LINE
from refaug.evaluation.scoring.reference_sets.set_manifest import Purpose, SetDescription
from refaug.evaluation.scoring.reference_sets.set_store import FreezeResult, ReferenceSets
from refaug.operations.references.freeze_set import FreezeSet
from refaug.service.jobs.kinds.freezing import put_items
from refaug.service.jobs.kinds.job_context import jobs_folder
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.deadline_progress import DeadlineProgress
from refaug.service.web.handling.idempotency_keys import CreatedResource
from refaug.service.web.handling.job_queueing import enqueue_job
from refaug.service.web.handling.request_items import ListedItems, faults_named, good_items, parse_items, problems_of
from refaug.service.web.handling.request_lease import open_lease
from refaug.service.web.problems import bad_items_error
from refaug.service.web.schemas.sets import SetIn
from refaug.service.web.state import ServiceState
from refaug.service.web.unknown_fields import UnknownField, unknown_field_warnings

# Beside the executor of other answers, which must not wait for seconds; two threads would slow it down twice as much.
_ONE_AT_A_TIME: Final = ThreadPoolExecutor(1, thread_name_prefix="freezing")


async def freeze_or_queue(state: ServiceState, body: SetIn, deadline: float, requested_by: str) -> CreatedResource:
    """Return the set of these items, or the job that will freeze them."""
    settings = _augment_settings(body)
    listed, unknown = await parse_items(body.items, state.serve, on_error=body.on_error, some=True)
    with faults_named(listed, unknown):
        return await _freeze_parsed(state, body, listed, unknown, settings, deadline, requested_by)


async def _freeze_parsed(
    state: ServiceState,
    body: SetIn,
    listed: ListedItems,
    unknown: Sequence[UnknownField],
    settings: AugmentSettings | None,
    deadline: float,
    requested_by: str,
) -> CreatedResource:
    items = good_items(listed)
    is_large = len(items) > state.serve.freeze_at_once
    if settings is None:
        if is_large:
            return await database_threads.run_query(partial(_queue, state, body, listed, unknown, {}, requested_by))
        making = SetDescription(purpose=Purpose(body.options.purpose), how={"freeze": {"references": "given"}})
        return await run_in_threadpool(_freeze, state, body, listed, unknown, making)
    async with open_lease(
        state,
        index=body.options.index,
        rater=body.options.rater,
        needs_index=True,
        needs_rater=settings.needs_rater,
        deadline=deadline,
    ) as lease:
        index = lease.require_index()
        require_preset_index(index, settings)
        if is_large:  # versions are pinned now: the job uses those that the answer names
            pinned = {kind: spec.partition("#")[0] for kind, spec in lease.versions().items()}
            return await database_threads.run_query(partial(_queue, state, body, listed, unknown, pinned, requested_by))
        progress = _DeadlineWithWarnings(deadline)
        augmented_items = await _run_in_turn(lambda: _augment(state, lease, items, settings, progress), lease, deadline)
        provenance = references_provenance(index, lease.rater, settings)
    making = SetDescription(
        purpose=Purpose(body.options.purpose),
        provenance=provenance.settings,
        details=provenance.details,
        how={"freeze": {"references": "found"}},
    )
    augmented = iter(augmented_items)
    listed = [one if isinstance(one, BadItem) else next(augmented).item for one in listed]
    warnings = [*progress.warnings, *_notes(augmented_items)]
    return await run_in_threadpool(_freeze, state, body, listed, unknown, making, warnings)


def _augment_settings(body: SetIn) -> AugmentSettings | None:
    """Return how to find references, or None where they are given; Usage where a field has no effect."""
    options = body.options
    if body.references == "find":
        options.require_frozen()
        return options.settings
    if idle := [name for name in ("index", "rater", "settings") if name in options.stated]:
        remedy = 'leave it out, or "references": "find"'
        raise Usage("it has no effect where the references are those given", remedy=remedy, field=idle[0])
    return None


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _DeadlineWithWarnings(DeadlineProgress):
    """Progress that stops the work at the deadline and collects warnings."""

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.warnings = list[str]()

    def warn(self, message: str) -> None:
        """Keep the warning for the answer."""
        self.warnings.append(message)


async def _run_in_turn(work: Callable[[], list[Augmented]], lease: Lease, deadline: float) -> list[Augmented]:
    """Run the work in the single thread for freezing; the lease is held until it ends, even if the client leaves."""
    held = lease.share()
    future = _ONE_AT_A_TIME.submit(work)
    future.add_done_callback(lambda _done: held.release())
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        raise Expired(
            "the time was over before all references were found", remedy="ask for more time, or fewer items"
        ) from None


def _augment(
    state: ServiceState, lease: Lease, items: Sequence[Item], settings: AugmentSettings, progress: _DeadlineWithWarnings
) -> list[Augmented]:
    progress.advance(0)  # it may have waited in line
    rater = None
    if settings.needs_rater and lease.rater is not None:
        rater = open_rater(state.home, lease.rater.spec.partition("#")[0], threads=state.threads)
    candidates = augment(items, lease.require_index(), rater, settings, progress)
    return [one for one in candidates if not isinstance(one, BadItem)]


def _notes(augmented_items: Sequence[Augmented]) -> list[str]:
    """Return why some items got no references, counted, as the command warns of it."""
    notes = Counter(one.note for one in augmented_items if one.note)
    return [f"{count:,} {'item' if count == 1 else 'items'}: {note}" for note, count in notes.most_common()]


# ── now ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _freeze(
    state: ServiceState,
    body: SetIn,
    listed: ListedItems,
    unknown: Sequence[UnknownField],
    making: SetDescription,
    warnings: Sequence[str] = (),
) -> CreatedResource:
    """Write the set; with "fail", an item that cannot be frozen refuses all before anything is written."""
    places = {one.id: place for place, one in enumerate(listed) if isinstance(one, Item)}

    def check(bad: Sequence[BadItem]) -> None:
        if bad and body.on_error == "fail":
            raise bad_items_error(_with_places(bad, places), len(listed), unknown)

    frozen = ReferenceSets(state.home.reference_sets).freeze(listed, making, called="items", check=check)
    return frozen_set_resource(
        frozen,
        problems=problems_of(_with_places(frozen.bad_items, places)),
        warnings=[*unknown_field_warnings(unknown), *warnings],
    )


def _with_places(bad: Sequence[BadItem], places: dict[str, int]) -> list[BadItem]:
    """Add the places of items that are known by their ids only, and sort by place."""
    placed = [
        replace(bad_item, line=places[bad_item.item] + 1)
        if bad_item.line == NO_LINE and bad_item.item in places
        else bad_item
        for bad_item in bad
    ]
    return sorted(placed, key=lambda one: one.line)


def frozen_set_resource(
    frozen: FreezeResult, *, problems: Sequence[Any] = (), warnings: Sequence[str] = ()
) -> CreatedResource:
    """Return the answer about a set: status 201, or 200 if the same set existed before."""
    manifest = frozen.set.manifest
    body = {**manifest.as_json(), "new": frozen.is_new, "problems": list(problems), "warnings": list(warnings)}
    return CreatedResource(
        status=201 if frozen.is_new else 200, body=body, location=f"/v1/reference-sets/{manifest.id}"
    )


# ── later ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _queue(
    state: ServiceState,
    body: SetIn,
    listed: ListedItems,
    unknown: Sequence[UnknownField],
    pinned: dict[str, str],
    requested_by: str,
) -> CreatedResource:
    """Queue a job that freezes the good items; problems of the bad ones are in this answer."""
    name = put_items(
        state.home,
        [
            orjson.dumps(item_json(replace(one, replies={}, ratings={}, reply_provenance={})))
            for one in good_items(listed)
        ],
    )
    options = body.options
    order = FreezeSet(
        items=name,
        purpose=options.purpose,
        index=pinned.get("index"),
        rater=pinned.get("rater"),
        settings=options.settings,
        strict=body.on_error == "fail",
    )
    try:
        resource = enqueue_job(state, order, requested_by)
    except RefaugError:  # the items are of no use without the job
        (jobs_folder(state.home) / f"{name}.jsonl").unlink(missing_ok=True)
        raise
    notes = {"problems": problems_of(listed), "warnings": unknown_field_warnings(unknown)}
    return replace(resource, body={**resource.body, **notes})
