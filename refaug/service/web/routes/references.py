"""Weighted references for the items of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from refaug.evaluation.scoring.augmentation import Augmented
from refaug.evaluation.scoring.cases import evidence_of
from refaug.service.scopes import Scope
from refaug.service.web.answers import large_json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import Deadline, count_items, requires, while_connected
from refaug.service.web.handling.reference_retrieval import ItemsWithReferences, augment_items, open_lease
from refaug.service.web.handling.request_items import ParsedItems, parse_items
from refaug.service.web.openapi import errors
from refaug.service.web.schemas.references import ReferencesIn, ReferencesOut
from refaug.service.web.state import ServiceState, state_of

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
    state = state_of(request)
    options = body.options
    settings = options.settings
    parsed_items = await parse_items(body.items, state.serve, on_error=body.on_error)
    count_items(request, len(body.items))
    with parsed_items.faults_named():
        async with open_lease(
            state,
            index=options.index,
            rater=options.rater,
            needs_index=True,
            needs_rater=settings.needs_rater,
            deadline=deadline,
        ) as lease:
            references = await augment_items(state, lease, parsed_items.good, settings, deadline=deadline)
            versions = lease.versions()
    return await large_json_response(lambda: _content(state, references, parsed_items, versions), items=len(body.items))


def _content(
    state: ServiceState, references: ItemsWithReferences, parsed_items: ParsedItems, versions: dict[str, str]
) -> Mapping[str, Any]:
    return {
        "items": items_json(references.items, references.lines),
        "problems": parsed_items.problems(),
        "warnings": [state.without_paths(one) for one in (*parsed_items.warnings, *references.warnings)],
        "versions": versions,
        "provenance": {**references.provenance.settings, **references.provenance.details},
        **({"missing_shards": list(references.missing)} if references.missing else {}),
    }


def items_json(augmented_items: Sequence[Augmented], provenance: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the items as `refaug refs` writes them, with the evidence for weighted scores of each."""
    return [
        {**augmented.as_json(line), "evidence": evidence_of(augmented.item)}
        for augmented, line in zip(augmented_items, provenance, strict=True)
    ]
