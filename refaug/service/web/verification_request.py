"""A request to POST /v1/verifications: scores that came before, reproduced from what they name."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import Corrupt, NotFound, RefaugError, TooLarge, Unavailable
from refaug.evaluation.score_files.score_file import ScoreFile
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.reference_sets.set_store import ReferenceSets
from refaug.evaluation.verification.artefact_parts import is_at_hand, unread_bytes, versions_of
from refaug.evaluation.verification.verification import Workplace, searched_request, verify
from refaug.indexer.search.index import ReferenceIndex
from refaug.rater.rating import Rater
from refaug.service.jobs.kinds.sources import require_source
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.answers import json_response
from refaug.service.web.dependencies import count_items
from refaug.service.web.handling.deadline_progress import DeadlineProgress
from refaug.service.web.handling.request_items import ListedItems, faults_named, good_items, parse_items
from refaug.service.web.handling.request_lease import open_lease
from refaug.service.web.schemas.scoring import VerificationIn
from refaug.service.web.state import ServiceState, state_of

# What is done in the time of a search and a rating, which the queue counts as an item.
_DRAWN_ROWS_PER_ITEM: Final = 500_000  # rows that a bootstrap adds up
_BYTES_PER_ITEM: Final = 4 * 2**20  # that are hashed
_SCORES_PER_ITEM: Final = 50
_SET_ITEMS_PER_ITEM: Final = 100  # items of a frozen set that are read


@dataclass(frozen=True, kw_only=True)
class VerificationRequest:
    """A request to verify scores."""

    request: Request
    body: VerificationIn
    deadline: float  # on the clock of `time.monotonic`

    async def answer(self) -> Response:
        """Answer the request; the work has a turn in the queue of long work, since versions are read for it."""
        state = state_of(self.request)
        file = ScoreFile.of(self.body.scores, "scores")
        self._require_within(state, file)
        items, unknown = await parse_items(self.body.items, state.serve, on_error="report", some=True)
        count_items(self.request, len(self.body.items))
        progress = DeadlineProgress(self.deadline)
        with progress.given_up_on_error(), faults_named(items, unknown):
            # The versions stay the same, and open, until the work is done.
            async with self._leased(state, file, items) as versions:
                cost = await run_in_threadpool(self._cost, state, file, items)
                verified = await state.batcher.run(
                    partial(self._verify, versions, file, items, progress),
                    items=cost,
                    deadline=self.deadline,
                    lease=versions.lease,
                    is_long=True,
                )
        return json_response(verified)

    @asynccontextmanager
    async def _leased(self, state: ServiceState, file: ScoreFile, items: ListedItems) -> AsyncIterator[LeasedVersions]:
        """Lease the versions that the scores are made again with, if they are at hand and whole."""
        named = await run_in_threadpool(_versions_at_hand, state, file, items)
        async with AsyncExitStack() as stack:
            lease, refusal = None, None
            if named:
                index, rater = named.get("index"), named.get("rater")
                leasing = open_lease(
                    state,
                    index=index,
                    rater=rater,
                    needs_index=index is not None,
                    needs_rater=rater is not None,
                    deadline=self.deadline,
                )
                try:
                    lease = await stack.enter_async_context(leasing)
                    lease.require_unchanged_files()
                except (NotFound, Corrupt, Unavailable) as error:  # the report says which file it is
                    lease, refusal = None, error
            yield LeasedVersions(state=state, lease=lease, refusal=refusal)

    def _require_within(self, state: ServiceState, file: ScoreFile) -> None:
        """Refuse more metrics or draws than a request for scores may have."""
        if len(file.scores) > state.serve.metrics:
            raise TooLarge(
                f"{len(file.scores):,} metrics are more than the {state.serve.metrics:,} of one request",
                remedy="refaug verify has no such limit",
            )
        draws = max(file.settings(stored).draws for stored in file.scores)
        if draws > state.serve.draws:
            raise TooLarge(
                f"{draws:,} draws are more than the {state.serve.draws:,} of one request",
                remedy="refaug verify has no such limit",
            )

    def _cost(self, state: ServiceState, file: ScoreFile, items: ListedItems) -> int:
        """Return the number of queue items that the work is worth: search, reading and hashing, scores and draws."""
        good = good_items(items)
        replies = sum(len(item.replies) for item in good) * len(file.scores)
        drawn = max(file.settings(stored).draws for stored in file.scores) * replies / _DRAWN_ROWS_PER_ITEM
        named = {(kind, spec) for scores in file.scores for kind, spec in versions_of(scores.signature)}
        unread = sum(unread_bytes(state.home, kind, spec) for kind, spec in named)
        worth = len(good) + _set_items(state, file) * (1 + len(file.scores)) / _SET_ITEMS_PER_ITEM
        worth += replies / _SCORES_PER_ITEM + drawn + unread / _BYTES_PER_ITEM
        return max(1, min(math.ceil(worth), state.serve.queue_items // 4))

    def _verify(
        self, versions: LeasedVersions, file: ScoreFile, items: ListedItems, progress: DeadlineProgress
    ) -> Mapping[str, Any]:
        state = versions.state
        with versions.opened() as opened:
            workplace = Workplace(
                models=replace(state.models, find_file=partial(_source, state)), open_index=opened.open_index
            )
            verification = verify(file, items, workplace, progress)
        return verification.with_messages(state.without_paths).as_json()


@dataclass(frozen=True, kw_only=True)
class LeasedVersions:
    """The versions that a verification has leased, or why it has none; others are leased when they are needed."""

    state: ServiceState
    lease: Lease | None
    refusal: RefaugError | None

    @contextmanager
    def opened(self) -> Iterator[OpenedVersions]:
        """Return the versions for the thread that verifies; what it leases is released at the end."""
        with ExitStack() as stack:
            yield OpenedVersions(versions=self, stack=stack)


@dataclass(frozen=True, kw_only=True)
class OpenedVersions:
    """Open versions for the thread of a verification, which end with it."""

    versions: LeasedVersions
    stack: ExitStack

    @contextmanager
    def open_index(
        self, index: str, rater: str | None, settings: AugmentSettings
    ) -> Iterator[tuple[ReferenceIndex, Rater | None]]:
        """Return an index and a rater as `name@version`."""
        del settings
        lease = self._lease(index, rater)
        assert lease.index is not None, "an index was asked for"
        yield lease.index, lease.rater

    def _lease(self, index: str | None, rater: str | None) -> Lease:
        """Return a lease on versions, which are open already where the request has leased them."""
        if self.versions.refusal is not None:
            raise self.versions.refusal
        leasing = self.versions.state.open_versions.lease(
            index=index, rater=rater, needs_index=index is not None, needs_rater=rater is not None
        )
        lease = self.stack.enter_context(leasing)
        lease.require_unchanged_files()
        return lease


def _versions_at_hand(state: ServiceState, file: ScoreFile, items: ListedItems) -> dict[str, str]:
    """Return the index and the rater that scores are made again with, as `name@version`, where they are stored."""
    searched = searched_request(file, items)
    lines = [scores.signature.settings for scores in file.scores]
    named = {"rater": next((line["rater"] for line in lines if "rater" in line), None)}
    if searched is not None:
        named["index"] = searched.signature.settings["index"]
    return {
        kind: spec.partition("#")[0]
        for kind, spec in named.items()
        if spec is not None and "@" in spec and is_at_hand(state.home, kind, spec)
    }


def _set_items(state: ServiceState, file: ScoreFile) -> int:
    """Return the size of the frozen set that the scores are against; 0 where there is none."""
    if file.set_id is None:
        return 0
    try:
        return ReferenceSets(state.home.reference_sets).open(file.set_id, even_withdrawn=True).manifest.items
    except RefaugError:
        return 0


def _source(state: ServiceState, spec: str) -> Path:
    """Return a file that a metric names, from where sources may lie; its ending is not in the signature."""
    name = spec.partition("#")[0]
    inbox = state.home.home / "inbox"
    names = sorted(path.name for path in inbox.glob(f"{name}.*")) if inbox.is_dir() and "/" not in name else []
    for text in (name, *names):
        if (inbox / text).exists():
            return require_source(text, state.home, state.serve)
    raise NotFound(f"there is no file {name} in inbox/", remedy="put it there")
