"""Freezing the items of a request: at once, as the command does, or by a job where there are many.

The name of a set follows from its content to the last digit, and the last digits of a rater follow from the texts that
it has read and rates together. So references of a set are not found in batches with other requests: each set opens the
rater again and calls the same function as the command and the job. The same items make the same set.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson
from starlette.concurrency import run_in_threadpool

from refaug.core.errors import Expired, RefaugError, Usage
from refaug.core.records import Item
from refaug.operations.references import FreezeSet
from refaug.scoring.augmentation import augment, require_preset_index
from refaug.scoring.home.networks import open_rater
from refaug.scoring.items import BadItem, item_json
from refaug.scoring.provenance import references_provenance
from refaug.scoring.reference_sets.reference_set import NO_LINE, Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import FreezeResult, ReferenceSets
from refaug.service.jobs.kinds.freezing import put_items
from refaug.service.jobs.kinds.job_context import jobs_folder
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.job_queueing import CreatedResource, enqueue_job
from refaug.service.web.handling.request_items import ListedItems, faults_named, good_items, parse_items, problems_of
from refaug.service.web.handling.request_lease import DeadlineProgress, open_lease
from refaug.service.web.problems import UnknownField, bad_items_error, unknown_field_warnings
from refaug.service.web.schemas.sets import SetIn
from refaug.service.web.state import ServiceState

# Beside the executor of other answers, which must not wait for seconds; two threads would slow it down twice as much.
_ONE_AT_A_TIME: Final = ThreadPoolExecutor(1, thread_name_prefix="freezing")


class SetFreezing:
    """A request to freeze items with their references."""

    def __init__(self, state: ServiceState, body: SetIn, deadline: float, requested_by: str) -> None:
        self.state, self.body, self.options = state, body, body.options
        self.deadline, self.requested_by = deadline, requested_by
        self.listed: ListedItems = ()
        self.unknown: Sequence[UnknownField] = ()

    async def resource(self) -> CreatedResource:
        """Return the set of these items, or the job that will freeze them."""
        finds = self.body.references == "find"
        if finds:
            self.options.require_frozen()
        elif idle := [name for name in ("index", "rater", "settings") if name in self.options.stated]:
            remedy = 'leave it out, or "references": "find"'
            raise Usage("it has no effect where the references are those given", remedy=remedy, field=idle[0])
        self.listed, self.unknown = await parse_items(
            self.body.items, self.state.serve, on_error=self.body.on_error, some=True
        )
        with faults_named(self.listed, self.unknown):
            if finds:
                return await self._with_found_references()
            if self._is_large:
                return await database_threads.run_query(partial(self._queue, {}))
            how = {"freeze": {"references": "given"}}
            making = SetDescription(purpose=Purpose(self.options.purpose), how=how)
            return await run_in_threadpool(self._freeze, self.listed, making)

    @property
    def _is_large(self) -> bool:
        return len(good_items(self.listed)) > self.state.serve.freeze_at_once

    async def _with_found_references(self) -> CreatedResource:
        options, settings = self.options, self.options.settings
        async with open_lease(
            self.state,
            index=options.index,
            rater=options.rater,
            needs_index=True,
            needs_rater=settings.needs_rater,
            deadline=self.deadline,
        ) as lease:
            index = lease.require_index()
            require_preset_index(index, settings)
            if self._is_large:  # versions are pinned now: the job uses those that the answer names
                pinned = {kind: spec.partition("#")[0] for kind, spec in lease.versions().items()}
                return await database_threads.run_query(partial(self._queue, pinned))
            progress = _DeadlineWithWarnings(self.deadline)
            augmented_items = await _run_in_turn(partial(self._augment, lease, progress), lease, self.deadline)
            provenance = references_provenance(index, lease.rater, settings)
        making = SetDescription(
            purpose=Purpose(options.purpose),
            provenance=provenance.settings,
            details=provenance.details,
            how={"freeze": {"references": "found"}},
        )
        augmented = iter(augmented_items)
        items = [one if isinstance(one, BadItem) else next(augmented) for one in self.listed]
        warnings = [*progress.warnings, *_notes(augmented_items)]
        return await run_in_threadpool(self._freeze, items, making, warnings)

    def _augment(self, lease: Lease, progress: DeadlineProgress) -> list[Item]:
        progress.advance(0)  # it may have waited in line
        rater, settings = None, self.options.settings
        if settings.needs_rater and lease.rater is not None:
            rater = open_rater(self.state.home, lease.rater.spec.partition("#")[0], threads=self.state.threads)
        candidates = augment(good_items(self.listed), lease.require_index(), rater, settings, progress)
        return [one for one in candidates if not isinstance(one, BadItem)]

    def _freeze(self, items: ListedItems, making: SetDescription, warnings: Sequence[str] = ()) -> CreatedResource:
        """Write the set; with "fail", an item that cannot be frozen refuses all before anything is written."""
        places = {one.id: place for place, one in enumerate(items) if isinstance(one, Item)}

        def check(bad: Sequence[BadItem]) -> None:
            if bad and self.body.on_error == "fail":
                raise bad_items_error(_with_places(bad, places), len(items), self.unknown)

        frozen = ReferenceSets(self.state.home.reference_sets).freeze(items, making, called="items", check=check)
        return frozen_set_resource(
            frozen,
            problems=problems_of(_with_places(frozen.bad_items, places)),
            warnings=[*unknown_field_warnings(self.unknown), *warnings],
        )

    def _queue(self, pinned: Mapping[str, str]) -> CreatedResource:
        """Queue a job that freezes the good items; problems of the bad ones are in this answer."""
        bare = (replace(one, replies={}, ratings={}, reply_provenance={}) for one in good_items(self.listed))
        name = put_items(self.state.home, [orjson.dumps(item_json(one)) for one in bare])
        order = FreezeSet(
            items=name,
            purpose=self.options.purpose,
            index=pinned.get("index"),
            rater=pinned.get("rater"),
            settings=self.options.settings,
            strict=self.body.on_error == "fail",
        )
        try:
            resource = enqueue_job(self.state, order, self.requested_by)
        except RefaugError:  # the items are of no use without the job
            (jobs_folder(self.state.home) / f"{name}.jsonl").unlink(missing_ok=True)
            raise
        notes = {"problems": problems_of(self.listed), "warnings": unknown_field_warnings(self.unknown)}
        return replace(resource, body={**resource.body, **notes})


class _DeadlineWithWarnings(DeadlineProgress):
    """Progress that stops the work at the deadline and collects warnings."""

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.warnings = list[str]()

    def warn(self, message: str) -> None:
        """Keep the warning for the answer."""
        self.warnings.append(message)


async def _run_in_turn(work: Callable[[], list[Item]], lease: Lease, deadline: float) -> list[Item]:
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


def _notes(augmented_items: Sequence[Item]) -> list[str]:
    """Return why some items got no references, counted, as the command warns of it."""
    notes = Counter(one.search_notes["note"] for one in augmented_items if "note" in one.search_notes)
    return [f"{count:,} {'item' if count == 1 else 'items'}: {note}" for note, count in notes.most_common()]


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
