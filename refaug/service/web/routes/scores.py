"""Routes of scores: of replies against references, of sums from several batches, and the metrics."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import Corrupt, NotFound, RefaugError, TooLarge, Unavailable
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.catalogue import METRICS
from refaug.metrics.packages.package_metrics import metrics_of_packages
from refaug.rater.rating import Rater
from refaug.scoring.combine import combine
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.score_files.score_file import ScoreFile
from refaug.scoring.settings import AugmentSettings
from refaug.scoring.verification.artefact_parts import is_at_hand, unread_bytes, versions_of
from refaug.scoring.verification.verification import Workplace, searched_request, verify
from refaug.service.jobs.kinds.sources import require_source
from refaug.service.scopes import Scope
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import Deadline, count_items, while_connected
from refaug.service.web.handling.request_items import ListedItems, faults_named, good_items, parse_items
from refaug.service.web.handling.request_lease import DeadlineProgress, open_lease
from refaug.service.web.handling.score_request import ScoreRequest
from refaug.service.web.openapi import route_options
from refaug.service.web.schemas import scoring
from refaug.service.web.schemas.catalogue import MetricsOut
from refaug.service.web.scoring_limits import DRAWN_ROWS_PER_ITEM, combining_cost, require_few_draws
from refaug.service.web.state import ServiceState, state_of

# ── Verifications ─────────────────────────────────────────────────────────────────────────────────────────────────────


# What is done in the time of a search and a rating, which the queue counts as an item.
_BYTES_PER_ITEM: Final = 4 * 2**20  # that are hashed
_SCORES_PER_ITEM: Final = 50
_SET_ITEMS_PER_ITEM: Final = 100  # items of a frozen set that are read


class VerificationRequest:
    """A request to verify scores."""

    def __init__(self, state: ServiceState, file: ScoreFile, posted_items: Sequence[Any], deadline: float) -> None:
        self.state, self.file, self.posted_items, self.deadline = state, file, posted_items, deadline
        self.progress = DeadlineProgress(deadline)
        self.items: ListedItems = ()
        self.refusal: RefaugError | None = None  # why the versions could not be leased

    async def answer(self, request: Request) -> Response:
        """Answer the request; the work has a turn in the queue of long work, since versions are read for it."""
        self._require_within()
        self.items, unknown = await parse_items(self.posted_items, self.state.serve, on_error="report", some=True)
        count_items(request, len(self.posted_items))
        with self.progress.given_up_on_error(), faults_named(self.items, unknown):
            # The versions stay the same, and open, until the work is done.
            async with self._leased() as lease:
                cost = await run_in_threadpool(self._cost)
                verified = await self.state.batcher.run(
                    self._verify, items=cost, deadline=self.deadline, lease=lease, is_long=True
                )
        return json_response(verified)

    @asynccontextmanager
    async def _leased(self) -> AsyncIterator[Lease | None]:
        """Lease the versions that the scores are made again with, if they are at hand and whole."""
        named = await run_in_threadpool(self._versions_at_hand)
        async with AsyncExitStack() as stack:
            lease, index, rater = None, named.get("index"), named.get("rater")
            if named:
                leasing = open_lease(
                    self.state,
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
                    lease, self.refusal = None, error
            yield lease

    def _versions_at_hand(self) -> dict[str, str]:
        """Return the index and the rater that scores are made again with, as `name@version`, where they are stored."""
        searched = searched_request(self.file, self.items)
        lines = [scores.signature.settings for scores in self.file.scores]
        named = {"rater": next((line["rater"] for line in lines if "rater" in line), None)}
        if searched is not None:
            named["index"] = searched.signature.settings["index"]
        return {
            kind: spec.partition("#")[0]
            for kind, spec in named.items()
            if spec is not None and "@" in spec and is_at_hand(self.state.home, kind, spec)
        }

    def _require_within(self) -> None:
        """Refuse more metrics or draws than a request for scores may have."""
        serve, remedy = self.state.serve, "refaug score verify has no such limit"
        if len(self.file.scores) > serve.metrics:
            raise TooLarge(
                f"{len(self.file.scores):,} metrics are more than the {serve.metrics:,} of one request", remedy=remedy
            )
        if self._draws > serve.draws:
            raise TooLarge(f"{self._draws:,} draws are more than the {serve.draws:,} of one request", remedy=remedy)

    @property
    def _draws(self) -> int:
        return max(self.file.settings(stored).draws for stored in self.file.scores)

    def _cost(self) -> int:
        """Return the number of queue items that the work is worth: search, reading and hashing, scores and draws."""
        metrics, items = len(self.file.scores), good_items(self.items)
        replies = sum(len(item.replies) for item in items) * metrics
        named = {(kind, spec) for scores in self.file.scores for kind, spec in versions_of(scores.signature)}
        unread = sum(unread_bytes(self.state.home, kind, spec) for kind, spec in named)
        worth = len(items) + self._set_items() * (1 + metrics) / _SET_ITEMS_PER_ITEM + replies / _SCORES_PER_ITEM
        worth += self._draws * replies / DRAWN_ROWS_PER_ITEM + unread / _BYTES_PER_ITEM
        return max(1, min(math.ceil(worth), self.state.serve.queue_items // 4))

    def _set_items(self) -> int:
        """Return the size of the frozen set that the scores are against; 0 where there is none."""
        if self.file.set_id is None:
            return 0
        try:
            stored = ReferenceSets(self.state.home.reference_sets).open(self.file.set_id, even_withdrawn=True)
        except RefaugError:
            return 0
        return stored.manifest.items

    def _verify(self) -> Mapping[str, Any]:
        """Return the report; what the thread leases for it is released at the end."""
        with ExitStack() as stack:
            models = replace(self.state.models, find_file=partial(_source, self.state))
            workplace = Workplace(models=models, open_index=partial(self._open_index, stack))
            verification = verify(self.file, self.items, workplace, self.progress)
        return verification.with_messages(self.state.without_paths).as_json()

    @contextmanager
    def _open_index(
        self, stack: ExitStack, index: str, rater: str | None, _settings: AugmentSettings
    ) -> Iterator[tuple[ReferenceIndex, Rater | None]]:
        """Yield an index and a rater as `name@version`, which are open already where the request has leased them."""
        if self.refusal is not None:
            raise self.refusal
        leasing = self.state.open_versions.lease(
            index=index, rater=rater, needs_index=True, needs_rater=rater is not None
        )
        lease = stack.enter_context(leasing)
        lease.require_unchanged_files()
        yield lease.require_index(), lease.rater


def _source(state: ServiceState, spec: str) -> Path:
    """Return a file that a metric names, from where sources may lie; its ending is not in the signature."""
    name = spec.partition("#")[0]
    inbox = state.home.home / "inbox"
    names = sorted(path.name for path in inbox.glob(f"{name}.*")) if inbox.is_dir() and "/" not in name else []
    for text in (name, *names):
        if (inbox / text).exists():
            return require_source(text, state.home, state.serve)
    raise NotFound(f"there is no file {name} in inbox/", remedy="put it there")


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["scoring"])


@router.post("/scores", **route_options(Scope.SCORE, scoring.ScoresOut, 404, 409, 501, body=scoring.ScoresIn))
async def score(
    request: Request, body: Annotated[scoring.ScoresIn, Depends(body_of(scoring.ScoresIn))], deadline: Deadline
) -> Response:
    """Score the replies of one or several systems: what `refaug score --json` prints.

    References are found once for all metrics, where one of them looks at weighted references; a metric that looks at
    the item's own does so in any case. `upsilon-` forms without `b` have that of the index, which is measured when it
    is first asked for. Replies come back in the order sent, each with its score or the reason why it has none.
    """
    return await while_connected(request, ScoreRequest(state_of(request), body, deadline).answer(request))


@router.post("/verifications", **route_options(Scope.SCORE, scoring.VerificationOut, body=scoring.VerificationIn))
async def verify_scores(
    request: Request,
    body: Annotated[scoring.VerificationIn, Depends(body_of(scoring.VerificationIn))],
    deadline: Deadline,
) -> Response:
    """Reproduce scores from their signatures: what `refaug score verify --json` prints.

    Every version that the signatures name is compared by hash, for which its files are read where they have changed
    since this server read them last; references are found anew where the items came without, and all is scored again.
    The answer says for each part whether it holds, differs or is missing; its status is 200 in each case. What was
    scored against a frozen set is verified with that set.
    """
    file = ScoreFile.of(body.scores, "scores")
    verification = VerificationRequest(state_of(request), file, body.items, deadline)
    return await while_connected(request, verification.answer(request))


@router.post("/scores/combine", **route_options(Scope.SCORE, scoring.CombinedOut, 409, body=scoring.CombineIn))
async def combine_scores(
    request: Request, body: Annotated[scoring.CombineIn, Depends(body_of(scoring.CombineIn))], deadline: Deadline
) -> Response:
    """Corpus scores, intervals and comparisons of several batches, as if all had been scored at once.

    Batches are answers of `"return": "stats"`, from here or from a reference set, all by the same metrics: batches
    whose signatures differ are refused. A metric counts as suitable if the references of any batch suit it.
    """
    state = state_of(request)
    options = body.options
    require_few_draws(options, state.serve)
    count_items(request, len(body.batches))
    cost = combining_cost(body.batches, options, state.serve)

    async def combine_in_queue() -> Response:
        combined = await state.batcher.run(
            lambda: combine(body.batches, options, body.on_error), items=cost, deadline=deadline
        )
        return json_response(combined)

    return await while_connected(request, combine_in_queue())


# ── The metrics ───────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/metrics", **route_options(Scope.READ, MetricsOut))
def list_metrics() -> Response:
    """All metrics: what each needs, its range and direction, its parameters with defaults and choices.

    Those that other packages add stand last.
    """
    return json_response({"metrics": _catalogue()})


@cache
def _catalogue() -> list[dict[str, object]]:
    return [info.as_json() for info in (*METRICS.values(), *metrics_of_packages()[0])]
