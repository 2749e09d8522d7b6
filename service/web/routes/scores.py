"""Scores of replies, against references that are found for them or that came with them; and sums put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service import observe
from service.batching import Found
from service.combine import combine
from service.keys import Scope
from service.scores import Evaluation
from service.web.answers import json_answer, large_answer
from service.web.body import body_of, takes
from service.web.deps import Deadline, counted, requires, while_connected
from service.web.finding import Made, leased
from service.web.items import items_of, problems_of
from service.web.openapi import errors
from service.web.schemas.scoring import CombinedOut, CombineIn, ScoresIn, ScoresOut
from service.web.scoring import Clock, Plan, Work, combining_cost, score_settings, unscored
from service.web.state import State, state_of

router = APIRouter(prefix="/v1", tags=["scoring"])

_ITEM: Final = {
    "id": "d1",
    "utterance": "Where do you buy tea?",
    "references": ["At the market."],
    "replies": {"a": "In the shop next door.", "b": "I don't know."},
}
_EXAMPLES: Final = {
    "weighted references": {"items": [_ITEM], "metrics": ["upsilon-bleu"]},
    "the item's own references": {"items": [_ITEM], "metrics": ["multi-bleu", "chrf"]},
    "with intervals": {"items": [_ITEM], "metrics": ["upsilon-bleu"], "draws": 1000, "baseline": "a"},
}


@router.post(
    "/scores",
    dependencies=[Depends(requires(Scope.SCORE))],
    openapi_extra=takes(ScoresIn, examples=_EXAMPLES),
    responses={200: {"model": ScoresOut}, **errors(404, 409, 501)},
)
async def score(
    request: Request, asked: Annotated[ScoresIn, Depends(body_of(ScoresIn))], deadline: Deadline
) -> Response:
    """Score the replies of one or several systems: what `refaug score --json` prints.

    References are found once for all metrics, where one of them looks at weighted references; a metric that looks at
    the item's own does so in any case. `upsilon-` forms without `b` have that of the index, which is measured when it
    is first asked for. Replies come back in the order sent, each with its score or the reason why it has none.
    """
    return await while_connected(request, _scored(request, asked, deadline))


async def _scored(request: Request, asked: ScoresIn, deadline: float) -> Response:
    state = state_of(request)
    plan = await _planned(asked, state)
    read = await items_of(asked.items, state.serve, on_error=asked.on_error, some=True)
    counted(request, len(asked.items))
    async with leased(
        state,
        index=asked.index,
        rater=asked.rater,
        needs_index=plan.finds,
        needs_rater=plan.needs_rater,
        deadline=deadline,
    ) as lease:
        made = Made.of(lease, plan.augmenting) if plan.finds else None
        clock = Clock(deadline)
        work = Work(state=state, plan=plan, items=read.good, bad=read.bad, lease=lease, made=made, clock=clock)
        found, warnings = await _found(work, deadline)
        versions = {**lease.versions(), **work.versions}
    observe.unscored(unscored(found))

    def answer() -> dict[str, Any]:
        body = found.as_statistics() if asked.return_ == "stats" else found.as_json()
        told = [state.without_paths(one) for one in (*read.warnings, *warnings, *found.warnings)]
        problems = problems_of(found.bad_items)
        return {**body, "problems": problems, "warnings": list(dict.fromkeys(told)), "versions": versions}

    return await large_answer(answer, items=sum(len(one.replies) for one in read.good) * len(found.scores))


async def _planned(asked: ScoresIn, state: State) -> Plan:
    """What is to be done; where a metric has settings, those may name files, which are looked at in a thread."""
    if any("=" in one for one in asked.metrics or ()):
        return await run_in_threadpool(Plan.of, asked, state.home, state.serve)
    return Plan.of(asked, state.home, state.serve)


_Scored = tuple[Evaluation, tuple[str, ...]]


async def _found(work: Work, deadline: float) -> _Scored:
    """The scores, and what is to be said of the references; given up as soon as nobody waits any more."""
    batcher, is_long = work.state.batcher, work.is_uncertain

    async def in_turn(scoring: Callable[[], _Scored]) -> _Scored:
        return await batcher.run(scoring, items=work.cost, deadline=deadline, lease=work.lease, is_long=is_long)

    try:
        if not work.plan.finds:
            return await in_turn(lambda: (work.run(), ()))

        def scored(found: Found) -> _Scored:
            return work.with_references([one.item for one in found.items]).run(), found.warnings

        asked = (work.lease, work.items, work.plan.augmenting)
        if work.is_small:
            return await batcher.augment_then(*asked, scored, deadline=deadline)
        further = await batcher.augment(*asked, deadline=deadline)
        return await in_turn(lambda: scored(further))
    except BaseException:
        work.clock.is_given_up = True
        raise


@router.post(
    "/scores/combine",
    dependencies=[Depends(requires(Scope.SCORE))],
    openapi_extra=takes(CombineIn),
    responses={200: {"model": CombinedOut}, **errors(409)},
)
async def combine_scores(
    request: Request, asked: Annotated[CombineIn, Depends(body_of(CombineIn))], deadline: Deadline
) -> Response:
    """Corpus scores, intervals and comparisons of several batches, as if all had been scored at once.

    Batches are answers of `"return": "stats"`, from here or from a reference set, all by the same metrics: batches
    whose signatures differ are refused.
    """
    state = state_of(request)
    settings = score_settings(asked, state.serve)
    counted(request, len(asked.batches))
    cost = combining_cost(asked.batches, settings, state.serve)

    async def work() -> Response:
        found = await state.batcher.run(lambda: combine(asked.batches, settings), items=cost, deadline=deadline)
        return json_answer(found)

    return await while_connected(request, work())
