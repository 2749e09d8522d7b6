"""Weighted references for the items of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from core.errors import Usage
from core.items import item_json
from service.augment import Augmented
from service.cases import evidence_of
from service.keys import Scope
from service.web.answers import large_answer
from service.web.body import body_of, takes
from service.web.deps import Deadline, counted, requires, while_connected
from service.web.finding import References, find, leased
from service.web.items import ItemsRead, items_of
from service.web.openapi import errors
from service.web.schemas.references import ReferencesIn, ReferencesOut
from service.web.state import State, state_of

router = APIRouter(prefix="/v1", tags=["scoring"])

_EXAMPLES: Final = {
    "one item": {
        "items": [{"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}],
        "settings": {"k": 5},
    },
    "without a rater": {
        "items": [{"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}],
        "settings": {"weights": "one", "parrot": "off"},
    },
}


@router.post(
    "/references",
    dependencies=[Depends(requires(Scope.SCORE))],
    openapi_extra=takes(ReferencesIn, examples=_EXAMPLES),
    responses={200: {"model": ReferencesOut}, **errors(404, 409)},
)
async def find_references(
    request: Request, asked: Annotated[ReferencesIn, Depends(body_of(ReferencesIn))], deadline: Deadline
) -> Response:
    """Further references for every item: found in an index, rated and weighed.

    Each item comes back with its own references, the parrot and what was found, in the order sent, and is again a valid
    item. Equal requests get equal references in the same order, whatever else is asked at once.
    """
    return await while_connected(request, _found(request, asked, deadline))


async def _found(request: Request, asked: ReferencesIn, deadline: float) -> Response:
    state = state_of(request)
    settings = asked.settings.settings()
    if asked.rater is not None and not settings.needs_rater:
        raise Usage('"rater", and nothing is to be rated', remedy="leave it out, or ask for rated weights")
    read = await items_of(asked.items, state.serve, on_error=asked.on_error)
    counted(request, len(asked.items))
    async with leased(
        state,
        index=asked.index,
        rater=asked.rater,
        needs_index=True,
        needs_rater=settings.needs_rater,
        deadline=deadline,
    ) as lease:
        found = await find(state, lease, read.good, settings, deadline=deadline)
        versions = lease.versions()
    return await large_answer(lambda: _answer(state, found, read, versions), items=len(asked.items))


def _answer(state: State, found: References, read: ItemsRead, versions: dict[str, str]) -> dict[str, Any]:
    return {
        "items": items_json(found.found),
        "problems": read.problems(),
        "warnings": [state.without_paths(one) for one in (*read.warnings, *found.warnings)],
        "versions": versions,
        "provenance": found.made.all,
    }


def items_json(found: Sequence[Augmented]) -> list[dict[str, Any]]:
    """Items as `refaug refs` writes them, with what weighted scores of them stand on."""
    return [
        {
            **item_json(one.item),
            **({"excluded": dict(one.excluded)} if one.excluded else {}),
            **({"note": one.note} if one.note else {}),
            "evidence": evidence_of(one.item),
        }
        for one in found
    ]
