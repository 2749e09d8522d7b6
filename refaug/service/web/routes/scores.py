"""Routes of scores: of replies against references, and of sums from several batches."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from refaug.evaluation.score_files.score_file import ScoreFile
from refaug.evaluation.scoring.combine import combine
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import Deadline, count_items, requires, while_connected
from refaug.service.web.handling.score_request import ScoreRequest
from refaug.service.web.openapi import errors
from refaug.service.web.schemas import scoring
from refaug.service.web.scoring_limits import combining_cost, require_few_draws
from refaug.service.web.state import state_of
from refaug.service.web.verification_request import VerificationRequest

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
    openapi_extra=request_body(scoring.ScoresIn, examples=_EXAMPLES),
    responses={200: {"model": scoring.ScoresOut}, **errors(404, 409, 501)},
)
async def score(
    request: Request, body: Annotated[scoring.ScoresIn, Depends(body_of(scoring.ScoresIn))], deadline: Deadline
) -> Response:
    """Score the replies of one or several systems: what `refaug score --json` prints.

    References are found once for all metrics, where one of them looks at weighted references; a metric that looks at
    the item's own does so in any case. `upsilon-` forms without `b` have that of the index, which is measured when it
    is first asked for. Replies come back in the order sent, each with its score or the reason why it has none.
    """
    return await while_connected(request, ScoreRequest(state_of(request), body, deadline).answer(request))


@router.post(
    "/verifications",
    dependencies=[Depends(requires(Scope.SCORE))],
    openapi_extra=request_body(scoring.VerificationIn),
    responses={200: {"model": scoring.VerificationOut}},
)
async def verify_scores(
    request: Request,
    body: Annotated[scoring.VerificationIn, Depends(body_of(scoring.VerificationIn))],
    deadline: Deadline,
) -> Response:
    """Reproduce scores from their signatures: what `refaug verify --json` prints.

    Every version that the signatures name is compared by hash, for which its files are read where they have changed
    since this server read them last; references are found anew where the items came without, and all is scored again.
    The answer says for each part whether it holds, differs or is missing; its status is 200 in each case. What was
    scored against a frozen set is verified with that set.
    """
    file = ScoreFile.of(body.scores, "scores")
    verification = VerificationRequest(state_of(request), file, body.items, deadline)
    return await while_connected(request, verification.answer(request))


@router.post(
    "/scores/combine",
    dependencies=[Depends(requires(Scope.SCORE))],
    openapi_extra=request_body(scoring.CombineIn),
    responses={200: {"model": scoring.CombinedOut}, **errors(409)},
)
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
