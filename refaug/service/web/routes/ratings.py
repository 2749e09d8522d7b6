"""Route of ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import TooLarge
from refaug.core.records import Reference
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater, RatingRequest
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import Deadline, count_items, requires, while_connected
from refaug.service.web.handling.request_lease import open_lease
from refaug.service.web.openapi import errors
from refaug.service.web.problems import BadRequest
from refaug.service.web.schemas.references import PairIn, RatingsIn, RatingsOut
from refaug.service.web.state import state_of

router = APIRouter(prefix="/v1", tags=["scoring"])

_EXAMPLES: Final = {
    "two candidates": {
        "pairs": [
            {
                "utterance": "Where do you buy tea?",
                "golds": ["At the market."],
                "candidates": [
                    {"text": "In the shop next door.", "utterance": "Where do you get your bread?"},
                    {"text": "I don't know."},
                ],
            }
        ]
    }
}


@router.post(
    "/ratings",
    dependencies=[Depends(requires(Scope.SCORE))],
    openapi_extra=request_body(RatingsIn, examples=_EXAMPLES),
    responses={200: {"model": RatingsOut}, **errors(404, 409)},
)
async def rate(
    request: Request, body: Annotated[RatingsIn, Depends(body_of(RatingsIn))], deadline: Deadline
) -> Response:
    """How well each candidate would do as a response, by a rater: from -1 to 1, in the order sent.

    A candidate is rated against the golds of its test pair; against several, its rating is the mean.
    """
    return await while_connected(request, _rate(request, body, deadline))


async def _rate(request: Request, body: RatingsIn, deadline: float) -> Response:
    state = state_of(request)
    _require_within_limits(body, state.serve)
    count_items(request, len(body.pairs))
    pairs = [
        RatingRequest(
            utterance=pair.utterance,
            golds=tuple(pair.golds),
            candidates=tuple(Reference(text=one.text, utterance=one.utterance) for one in pair.candidates),
        )
        for pair in body.pairs
    ]
    async with open_lease(
        state, index=None, rater=body.options.rater, needs_index=False, needs_rater=True, deadline=deadline
    ) as lease:
        ratings = await state.batcher.rate(lease, pairs, body.options.rating, deadline=deadline)
        assert lease.rater is not None, "one was asked for"
        warning = await run_in_threadpool(_language_warning, lease.rater, pairs)  # takes a while for thousands of texts
        versions = lease.versions()
    return json_response({"ratings": ratings, "versions": versions, "warnings": [] if warning is None else [warning]})


def _language_warning(rater: Rater, pairs: list[RatingRequest]) -> str | None:
    """Return a warning if the texts are in a language that the rater does not know."""
    texts = [text for one in pairs for text in (one.utterance, *one.golds, *(its.text for its in one.candidates))]
    return rater.unfamiliar(Coverage() + rater.coverage(texts))


def _require_within_limits(body: RatingsIn, serve: ServeSettings) -> None:
    """Apply the limits of items, replies and texts to test pairs and candidates."""
    if len(body.pairs) > serve.items:
        raise TooLarge(f"{len(body.pairs):,} pairs are more than {serve.items:,}", remedy="send several requests")
    if (candidates := sum(len(pair.candidates) for pair in body.pairs)) > serve.replies:
        raise TooLarge(f"{candidates:,} candidates are more than {serve.replies:,}", remedy="send several requests")
    problems = [one for place, pair in enumerate(body.pairs) for one in _bad_fields(place, pair, serve)]
    if problems:
        raise BadRequest(f"{problems[0]['field']}: {problems[0]['message']}", errors=problems)


def _bad_fields(place: int, pair: PairIn, serve: ServeSettings) -> Iterator[Mapping[str, Any]]:
    texts = {
        "utterance": pair.utterance,
        **{f"golds[{at}]": text for at, text in enumerate(pair.golds)},
        **{f"candidates[{at}].text": one.text for at, one in enumerate(pair.candidates)},
        **{f"candidates[{at}].utterance": one.utterance or "" for at, one in enumerate(pair.candidates)},
    }
    for field, text in texts.items():
        message = ""
        if len(text) > serve.text_chars:
            message = f"{len(text):,} characters are more than the {serve.text_chars:,} that one text may have"
        elif not text.strip() and (field == "utterance" or field.startswith("golds")):
            message = "it is empty"
        if message:
            yield {"item": None, "place": place, "field": f"pairs[{place}].{field}", "message": message}
