"""Weighted references for the items of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from refaug.scoring.augmentation import found_json, missing_shards, require_preset_index
from refaug.scoring.cases import evidence_of
from refaug.scoring.provenance import references_provenance, without_shards
from refaug.service.scopes import Scope
from refaug.service.web.answers import large_json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import Deadline, count_items, requires, while_connected
from refaug.service.web.handling.request_items import faults_named, good_items, parse_items, problems_of
from refaug.service.web.handling.request_lease import open_lease
from refaug.service.web.openapi import errors
from refaug.service.web.problems import unknown_field_warnings
from refaug.service.web.schemas.references import ReferencesIn, ReferencesOut
from refaug.service.web.state import state_of

router = APIRouter(prefix="/v1", tags=["scoring"])

_EXAMPLES: Final = {
    "one item": {
        "items": [{"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}],
        "settings": {"k": 5},
    },
    "with what was left out": {
        "items": [{"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}],
        "settings": {"show_excluded": 20},
    },
    "without a rater": {
        "items": [{"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}],
        "settings": {"weights": "one", "parrot": "off"},
    },
}


@router.post(
    "/references",
    dependencies=[Depends(requires(Scope.SCORE))],
    openapi_extra=request_body(ReferencesIn, examples=_EXAMPLES),
    responses={200: {"model": ReferencesOut}, **errors(404, 409)},
)
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
