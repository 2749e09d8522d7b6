"""Weighted references for the items of a request, and ratings of what it brings along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import TooLarge
from refaug.core.records import Reference
from refaug.operations.references import RateCandidates, RetrievalOptions
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater, RatingRequest
from refaug.scoring.augmentation import found_json, missing_shards, require_preset_index
from refaug.scoring.cases import evidence_of
from refaug.scoring.provenance import references_provenance, without_shards
from refaug.service.option_groups import OptionsBody
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.web.answers import json_response, large_json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import Deadline, count_items, while_connected
from refaug.service.web.handling.request_items import faults_named, good_items, parse_items, problems_of
from refaug.service.web.handling.request_lease import open_lease
from refaug.service.web.openapi import route_options
from refaug.service.web.problems import BadRequest, unknown_field_warnings
from refaug.service.web.schemas.common import (
    ItemsField,
    OnErrorField,
    OpenModel,
    Problems,
    ResponseModel,
    StrictModel,
    VersionsOut,
)
from refaug.service.web.state import state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class ReferencesIn(OptionsBody[RetrievalOptions]):
    """Test pairs that further references are wanted for."""

    items: ItemsField
    on_error: OnErrorField = "fail"


class ReferenceOut(OpenModel):
    """A reference with its weight and where it comes from."""

    text: str = Field(description="what it says")
    source: Literal["gold", "parrot", "retrieved", "supplied"] = Field(description="where it comes from")
    weight: float | None = Field(default=None, description="what a match with it is worth, from -1 to 1")
    similarity: float | None = Field(default=None, description="of what it answered to the item's utterance")
    rating: float | None = Field(default=None, description="what the rater gave it, from -1 to 1")
    unused: bool | None = Field(default=None, description="true: a gold that weighted scores leave out")
    rank: int | None = Field(default=None, description="its place among those that were found, from 1")
    utterance: str | None = Field(default=None, description="what it answered, where it was found")
    speaker: str | None = Field(default=None, description="who said it, where the log names speakers")
    time: str | None = Field(default=None, description="when it was said, where the log has times, ISO 8601")


class ExcludedReferenceOut(OpenModel):
    """A pair of the log that came up, and was left out."""

    text: str = Field(description="what it says")
    reason: str = Field(
        description="`test_pair`, `gold`, `near_gold`, `parrot`, `near_parrot`, `own_dialogue`, `dialogue`, `time`, "
        "`log` or `duplicate`"
    )
    similarity: float = Field(description="of what it answered to the item's utterance")
    utterance: str = Field(description="what it answered")
    log: str = Field(description="the log that it is from")
    dialogue: str = Field(description="the dialogue that it is from")


class ReferencedItemOut(OpenModel):
    """An item with its references; again a valid item."""

    id: str = Field(description="the item's")
    references: list[ReferenceOut] = Field(description="golds and supplied ones, the parrot, then what was found")
    excluded: dict[str, int] = Field(default={}, description="what was left out on the way, counted by the reason")
    excluded_references: list[ExcludedReferenceOut] = Field(
        default=[],
        description="the first of these, at most `settings.show_excluded`, in the order in which they came up",
    )
    note: str | None = Field(default=None, description="why nothing was found, or nothing could be rated")
    missing_shards: list[str] = Field(
        default=[], description="shards that had no part in its references, where `partial` allows that"
    )
    provenance: str = Field(description="how its references were made, as signatures say it; keep it in the item")
    evidence: dict[str, object] = Field(description="on what a weighted score of it stands")


class ReferencesOut(Problems, ResponseModel):
    """The items in the order sent, without those under `problems`."""

    items: list[ReferencedItemOut] = Field(description="in the order sent")
    versions: VersionsOut = Field(description="what made the references")
    provenance: dict[str, str] = Field(description="what signatures of scores by these references say of them")
    missing_shards: list[str] = Field(
        default=[], description="shards that had no part in the references of some item; see `partial`"
    )


class CandidateIn(StrictModel):
    """A text to be rated."""

    text: str = Field(description="the text")
    utterance: str | None = Field(default=None, description="what it answered; null: the test pair's utterance")


class PairIn(StrictModel):
    """A test pair, and what is to be rated against it."""

    utterance: str = Field(min_length=1, description="what is replied to")
    golds: list[str] = Field(min_length=1, max_length=1_000, description="responses that fit; the rating is the mean")
    candidates: list[CandidateIn] = Field(max_length=10_000, description="what is to be rated")


class RatingsIn(OptionsBody[RateCandidates]):
    """Texts that a rater is asked about."""

    pairs: list[PairIn] = Field(
        min_length=1, max_length=100_000, fail_fast=True, description="test pairs with their candidates"
    )


class RatingsOut(ResponseModel):
    """Ratings in the order sent."""

    ratings: list[list[float]] = Field(description="for each pair, those of its candidates, from -1 to 1")
    versions: VersionsOut = Field(description="what rated them")
    warnings: list[str] = Field(description="what makes the ratings mean less than one may think")


# ── References ────────────────────────────────────────────────────────────────────────────────────────────────────────

router = APIRouter(prefix="/v1", tags=["scoring"])


@router.post("/references", **route_options(Scope.SCORE, ReferencesOut, 404, 409, body=ReferencesIn))
async def find_references(
    request: Request, body: Annotated[ReferencesIn, Depends(body_of(ReferencesIn))], deadline: Deadline
) -> Response:
    """Further references for every item: found in an index, rated and weighed.

    Each item comes back with its own references, the parrot and what was found, in the order sent, and is again a valid
    item. Equal requests get equal references in the same order, whatever else is asked at once.
    """
    return await while_connected(request, _find(request, body, deadline))


async def _find(request: Request, body: ReferencesIn, deadline: float) -> Response:
    state, options, settings = state_of(request), body.options, body.options.settings
    listed, unknown = await parse_items(body.items, state.serve, on_error=body.on_error)
    count_items(request, len(body.items))
    with faults_named(listed, unknown):
        async with open_lease(
            state,
            index=options.index,
            rater=options.rater,
            needs_index=True,
            needs_rater=settings.needs_rater,
            deadline=deadline,
        ) as lease:
            index = lease.require_index()
            require_preset_index(index, settings)
            augmented, warnings = await state.batcher.augment(lease, good_items(listed), settings, deadline=deadline)
            missing = missing_shards(augmented)
            provenance = references_provenance(index, lease.rater, settings)
            of_all = without_shards(provenance, index, missing)
            lines = [without_shards(provenance, index, missing_shards([item])).line for item in augmented]
            versions = lease.versions()

    def content() -> Mapping[str, Any]:
        items = [
            {**found_json(item, line), "evidence": evidence_of(item)}
            for item, line in zip(augmented, lines, strict=True)
        ]
        return {
            "items": items,
            "problems": problems_of(listed),
            "warnings": [state.without_paths(one) for one in (*unknown_field_warnings(unknown), *warnings)],
            "versions": versions,
            "provenance": {**of_all.settings, **of_all.details},
            **({"missing_shards": missing} if missing else {}),
        }

    return await large_json_response(content, items=len(body.items))


# ── Ratings ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post("/ratings", **route_options(Scope.SCORE, RatingsOut, 404, 409, body=RatingsIn))
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
