"""What a rater says of texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from core.errors import TooLarge
from rater.coverage import Coverage
from rater.rate import Candidate, Rater, RatingSettings, ToRate
from service.keys import Scope
from service.serve_settings import ServeSettings
from service.web.answers import json_answer
from service.web.body import body_of, takes
from service.web.deps import Deadline, counted, requires, while_connected
from service.web.finding import leased
from service.web.openapi import errors
from service.web.problems import BadRequest
from service.web.schemas.references import PairIn, RatingsIn, RatingsOut
from service.web.state import state_of

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
    openapi_extra=takes(RatingsIn, examples=_EXAMPLES),
    responses={200: {"model": RatingsOut}, **errors(404, 409)},
)
async def rate(
    request: Request, asked: Annotated[RatingsIn, Depends(body_of(RatingsIn))], deadline: Deadline
) -> Response:
    """How well each candidate would do as a response, by a rater: from -1 to 1, in the order sent.

    A candidate is rated against the golds of its test pair; against several, its rating is the mean.
    """
    return await while_connected(request, _rated(request, asked, deadline))


async def _rated(request: Request, asked: RatingsIn, deadline: float) -> Response:
    state = state_of(request)
    _require_room(asked, state.serve)
    counted(request, len(asked.pairs))
    wanted = [
        ToRate(
            utterance=pair.utterance,
            golds=tuple(pair.golds),
            candidates=tuple(Candidate(text=one.text, utterance=one.utterance) for one in pair.candidates),
        )
        for pair in asked.pairs
    ]
    settings = RatingSettings(combine=asked.combine, calibration="cal" if asked.calibrated else "raw")
    async with leased(
        state, index=None, rater=asked.rater, needs_index=False, needs_rater=True, deadline=deadline
    ) as lease:
        ratings = await state.batcher.rate(lease, wanted, settings, deadline=deadline)
        assert lease.rater is not None, "one was asked for"
        told = await run_in_threadpool(_told, lease.rater, wanted)  # of thousands of texts it takes a while
        versions = lease.versions()
    return json_answer({"ratings": ratings, "versions": versions, "warnings": [] if told is None else [told]})


def _told(rater: Rater, wanted: list[ToRate]) -> str | None:
    """Whether the texts are in a language that the rater knows."""
    texts = [text for one in wanted for text in (one.utterance, *one.golds, *(its.text for its in one.candidates))]
    return rater.unfamiliar(Coverage() + rater.coverage(texts))


def _require_room(asked: RatingsIn, serve: ServeSettings) -> None:
    """The limits of items, replies and texts, which go for test pairs and candidates as well."""
    if len(asked.pairs) > serve.items:
        raise TooLarge(f"{len(asked.pairs):,} pairs are more than {serve.items:,}", remedy="send several requests")
    if (candidates := sum(len(pair.candidates) for pair in asked.pairs)) > serve.replies:
        raise TooLarge(f"{candidates:,} candidates are more than {serve.replies:,}", remedy="send several requests")
    found = [one for place, pair in enumerate(asked.pairs) for one in _bad_fields(place, pair, serve)]
    if found:
        raise BadRequest(f"{found[0]['field']}: {found[0]['message']}", errors=found)


def _bad_fields(place: int, pair: PairIn, serve: ServeSettings) -> Iterator[dict[str, Any]]:
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
