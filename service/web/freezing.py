"""Freezing the items of a request: now, as the command does it, or by a job where there are many.

What a set is called follows from its content to the last digit, and a rater's last digits follow from what it has read
before and what it is asked at once. So references are not found with those of other requests: for each set the rater is
opened anew, and asked by the function that the command and the job ask it by. The same items make the same set.
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

from core.errors import Expired, RefaugError, Usage
from core.items import BadItem, item_json
from core.records import Item
from service.augment import Augmented, AugmentSettings, augment
from service.engine import Lease
from service.job_kinds.freezing import put_items
from service.job_kinds.orders import parse_order
from service.job_kinds.work import jobs_folder
from service.rating import open_rater
from service.reference_sets import UNPLACED, Frozen, Making, ReferenceSets
from service.web import rows
from service.web.finding import Made as References
from service.web.finding import leased
from service.web.items import ItemsRead, items_of, problems_of
from service.web.once import Made
from service.web.problems import bad_items
from service.web.queueing import queued
from service.web.schemas.common import RetrievalIn
from service.web.schemas.sets import SetIn
from service.web.scoring import Clock
from service.web.state import State

# Beside the executor that answers, which is not to wait for seconds; two at once would slow it down twice.
_ONE_AT_A_TIME: Final = ThreadPoolExecutor(1, thread_name_prefix="freezing")


async def frozen_or_queued(state: State, asked: SetIn, deadline: float, requested_by: str) -> Made:
    """The set that these items are, or the job that will freeze them."""
    settings = _settings(asked)
    read = await items_of(asked.items, state.serve, on_error=asked.on_error, some=True)
    is_large = len(read.good) > state.serve.freeze_at_once
    if settings is None:
        if is_large:
            return await rows.asked(partial(_queue, state, asked, read, {}, requested_by))
        making = Making(purpose=asked.purpose, how={"freeze": {"references": "given"}})
        return await run_in_threadpool(_freeze, state, asked, read.listed, making, read.warnings)
    async with leased(
        state,
        index=asked.index,
        rater=asked.rater,
        needs_index=True,
        needs_rater=settings.needs_rater,
        deadline=deadline,
    ) as lease:
        if is_large:  # names are settled now: the job finds and weighs with what the caller was told
            pinned = {kind: spec.partition("#")[0] for kind, spec in lease.versions().items()}
            return await rows.asked(partial(_queue, state, asked, read, pinned, requested_by))
        clock = _Clock(deadline)
        found = await _in_turn(lambda: _augmented(state, lease, read.good, settings, clock), lease, deadline)
        made = References.of(lease, settings)
    making = Making(
        purpose=asked.purpose, provenance=made.by, details=made.details, how={"freeze": {"references": "found"}}
    )
    augmented = iter(found)
    listed = [one if isinstance(one, BadItem) else next(augmented).item for one in read.listed]
    return await run_in_threadpool(
        _freeze, state, asked, listed, making, [*read.warnings, *clock.warnings, *_notes(found)]
    )


def _settings(asked: SetIn) -> AugmentSettings | None:
    """How references are to be found, None where they are given; Usage where something was said in vain."""
    if asked.references == "find":
        settings = (asked.settings or RetrievalIn()).settings()
        if asked.rater is not None and not settings.needs_rater:
            raise Usage('"rater", and nothing is to be rated', remedy="leave it out, or ask for rated weights")
        return settings
    said = [name for name in ("index", "rater", "settings") if getattr(asked, name) is not None]
    if said:
        raise Usage(
            f'"{said[0]}", and references are taken as they are given', remedy='leave it out, or "references": "find"'
        )
    return None


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────


class _Clock(Clock):
    """Stops the work when its time is over, and keeps what one should know."""

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.warnings = list[str]()

    def warn(self, message: str) -> None:
        """Keep it for the answer."""
        self.warnings.append(message)


async def _in_turn(work: Callable[[], list[Augmented]], lease: Lease, deadline: float) -> list[Augmented]:
    """What the work gives, one after the other in a process; the lease is held until it ends, whoever waits for it."""
    held = lease.shared()
    future = _ONE_AT_A_TIME.submit(work)
    future.add_done_callback(lambda _done: held.release())
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        raise Expired(
            "the time was over before all references were found", remedy="ask for more time, or fewer items"
        ) from None


def _augmented(
    state: State, lease: Lease, items: Sequence[Item], settings: AugmentSettings, clock: _Clock
) -> list[Augmented]:
    assert lease.index is not None, "references are found in an index"
    clock.advance(0)  # it may have waited for long
    rater = None
    if settings.needs_rater and lease.rater is not None:
        rater = open_rater(state.home, lease.rater.spec.partition("#")[0], threads=state.threads)
    found = augment(items, lease.index, rater, settings, clock)
    return [one for one in found if not isinstance(one, BadItem)]


def _notes(found: Sequence[Augmented]) -> list[str]:
    """Why nothing was found for some items, as the command warns of it."""
    notes = Counter(one.note for one in found if one.note)
    return [f"{count:,} {'item' if count == 1 else 'items'}: {note}" for note, count in notes.most_common()]


# ── now ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _freeze(
    state: State, asked: SetIn, listed: Sequence[Item | BadItem], making: Making, warnings: Sequence[str]
) -> Made:
    """Write the set; with "fail", an item that cannot be frozen refuses all before anything is there."""
    places = {one.id: place for place, one in enumerate(listed) if isinstance(one, Item)}

    def check(bad: Sequence[BadItem]) -> None:
        if bad and asked.on_error == "fail":
            raise bad_items(_placed(bad, places), len(listed))

    frozen = ReferenceSets(state.home.reference_sets).freeze(listed, making, called="items", check=check)
    return frozen_set(frozen, problems=problems_of(_placed(frozen.bad_items, places)), warnings=warnings)


def _placed(bad: Sequence[BadItem], places: dict[str, int]) -> list[BadItem]:
    """With the places of those that are told by their ids alone, in the order sent."""
    placed = [
        replace(one, line=places[one.item] + 1) if one.line == UNPLACED and one.item in places else one for one in bad
    ]
    return sorted(placed, key=lambda one: one.line)


def frozen_set(frozen: Frozen, *, problems: Sequence[Any] = (), warnings: Sequence[str] = ()) -> Made:
    """A set that is there, as the answer to who asked for it: 201, or 200 where it was there before."""
    manifest = frozen.set.manifest
    body = {**manifest.as_json(), "new": frozen.is_new, "problems": list(problems), "warnings": list(warnings)}
    return Made(status=201 if frozen.is_new else 200, body=body, location=f"/v1/reference-sets/{manifest.id}")


# ── later ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _queue(state: State, asked: SetIn, read: ItemsRead, pinned: dict[str, str], requested_by: str) -> Made:
    """A job that freezes the good items; the bad ones are told now."""
    name = put_items(state.home, [orjson.dumps(item_json(replace(one, replies={}, ratings={}))) for one in read.good])
    settings = {} if asked.settings is None else {"settings": asked.settings.model_dump(mode="json")}
    order = parse_order(
        {
            "kind": "freeze",
            "items": name,
            "purpose": asked.purpose.value,
            **pinned,
            **settings,
            "strict": asked.on_error == "fail",
        }
    )
    try:
        made = queued(state, order, requested_by)
    except RefaugError:  # nobody will ask for the items under this name
        (jobs_folder(state.home) / f"{name}.jsonl").unlink(missing_ok=True)
        raise
    return replace(made, body={**made.body, "problems": read.problems(), "warnings": list(read.warnings)})
