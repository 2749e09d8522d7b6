"""Routes of studies: drafts, amendments, opening, pausing, closing, and a look at what participants see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from refaug.extras.studies import schemas
from refaug.extras.studies.assignment import check_plan
from refaug.extras.studies.participation.study_figures import study_counts, study_slots
from refaug.extras.studies.participation.study_store import StoredStudy
from refaug.extras.studies.participation.tasks.study_targets import notice_amended_target
from refaug.extras.studies.routes.parts import parts_of
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import After, Limit, acting, key_of, page_of
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import created, route_options
from refaug.service.web.state import ServiceState, state_of

router = APIRouter(prefix="/v1", tags=["studies"])

StudyId = Annotated[str, Path(description="id or name of the study", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


@router.get("/studies", **route_options(Scope.STUDY, schemas.StudiesOut, other_scope=Scope.STUDY_READ))
async def list_studies(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Studies, newest first."""
    state = state_of(request)

    def page() -> dict[str, object]:
        studies = {study.id: study for study in parts_of(state).studies.all()}
        names, following = page_of(list(studies), after, limit, order=_newest_first)
        return {"studies": [_row(studies[name]) for name in names], "next": following}

    return json_response(await database_threads.run_query(page))


def _newest_first(study: str) -> tuple[int, ...]:
    return tuple(-ord(character) for character in study)


@router.post(
    "/studies", **route_options(Scope.STUDY, {201: created(schemas.StudyOut)}, 404, 409, 413, body=schemas.StudyIn)
)
async def create_study(
    request: Request, body: Annotated[schemas.StudyIn, Depends(body_of(schemas.StudyIn))]
) -> Response:
    """Make a study as a draft; 422 names every field of the protocol that is wrong, with what would be right."""
    state = state_of(request)
    study = await database_threads.run_query(
        lambda: parts_of(state).studies.create(body.name, body.protocol, body.items, **acting(request))
    )
    location = f"{request.scope.get('root_path', '')}/v1/studies/{study.id}"
    content = await database_threads.run_query(lambda: described(state, study))
    return json_response(content, status=201, headers={"Location": location})


@router.get("/studies/{id}", **route_options(Scope.STUDY, schemas.StudyOut, 404, other_scope=Scope.STUDY_READ))
async def get_study(request: Request, id: StudyId) -> Response:
    """A study with its protocol, amendments, counts and bots; `completion` is empty for keys without the scope study.

    Its codes and addresses are what a recruiting service pays participants for.
    """
    state = state_of(request)
    hidden: dict[str, object] = {} if key_of(request).allows(Scope.STUDY) else {"completion": {}}

    def study() -> dict[str, object]:
        stored = parts_of(state).studies.get(id)
        return {**described(state, stored), "protocol": {**stored.protocol.fields, **hidden}}

    return json_response(await database_threads.run_query(study))


@router.put(
    "/studies/{id}/protocol", **route_options(Scope.STUDY, schemas.StudyOut, 404, 409, body=schemas.AmendmentIn)
)
async def amend_study(
    request: Request, id: StudyId, body: Annotated[schemas.AmendmentIn, Depends(body_of(schemas.AmendmentIn))]
) -> Response:
    """Replace the protocol of a draft, or amend that of an open study, with a reason; both hashes are reported."""
    state = state_of(request)

    def amend() -> dict[str, object]:
        study = parts_of(state).studies.get(id)
        amended = parts_of(state).studies.amend(study, body.protocol, reason=body.reason, **acting(request))
        notice_amended_target(state.database, amended)
        return described(state, amended)

    return json_response(await database_threads.run_query(amend))


@router.delete("/studies/{id}", **route_options(Scope.STUDY, schemas.DeletedStudyOut, 404, 409))
async def delete_study(request: Request, id: StudyId) -> Response:
    """Remove a draft, or a closed study with everything that was collected."""
    state = state_of(request)

    def remove() -> dict[str, object]:
        study = parts_of(state).studies.get(id)
        parts_of(state).studies.delete(study, **acting(request))
        return {"id": study.id, "name": study.name}

    return json_response(await database_threads.run_query(remove))


@router.post(
    "/studies/{id}/dialogues",
    **route_options(Scope.STUDY, schemas.AddedItemsOut, 404, 409, 413, body=schemas.StudyItemsIn),
)
async def add_study_items(
    request: Request, id: StudyId, body: Annotated[schemas.StudyItemsIn, Depends(body_of(schemas.StudyItemsIn))]
) -> Response:
    """Add dialogues, replies or references to a draft."""
    state = state_of(request)

    def add() -> int:
        return parts_of(state).studies.add_items(parts_of(state).studies.get(id), body.items, **acting(request))

    return json_response({"tasks": await database_threads.run_query(add)})


async def _act(request: Request, study: str, act: str) -> Response:
    state = state_of(request)

    def work() -> dict[str, object]:
        return described(state, parts_of(state).studies.act(parts_of(state).studies.get(study), act, **acting(request)))

    return json_response(await database_threads.run_query(work))


_ACT: Final = route_options(Scope.STUDY, schemas.StudyOut, 404, 409)


@router.post("/studies/{id}/pilot", **_ACT)
async def pilot_study(request: Request, id: StudyId) -> Response:
    """Take participants whose answers do not count."""
    return await _act(request, id, "pilot")


@router.post("/studies/{id}/open", **_ACT)
async def open_study(request: Request, id: StudyId) -> Response:
    """Freeze the protocol with the hashes of bots and items, and take participants; a second time changes nothing."""
    return await _act(request, id, "open")


@router.post("/studies/{id}/pause", **_ACT)
async def pause_study(request: Request, id: StudyId) -> Response:
    """Give out no more tasks; those that have begun may be finished."""
    return await _act(request, id, "pause")


@router.post("/studies/{id}/close", **_ACT)
async def close_study(request: Request, id: StudyId) -> Response:
    """End the study for good."""
    return await _act(request, id, "close")


@router.get(
    "/studies/{id}/preview", **route_options(Scope.STUDY, schemas.StudyPreviewOut, 404, other_scope=Scope.STUDY_READ)
)
async def preview_study(
    request: Request,
    id: StudyId,
    language: Annotated[str, Query(description="one of the study's languages", max_length=20)] = "",
) -> Response:
    """What a participant would see, and an example of a sequence of tasks."""
    state = state_of(request)
    study = await database_threads.run_query(lambda: parts_of(state).studies.get(id))
    return json_response(_preview(study, language))


def _preview(study: StoredStudy, language: str) -> dict[str, object]:
    protocol = study.protocol
    shown_language = language if language in protocol.languages else protocol["language"]
    checks = protocol["checks"]
    sequence = check_plan(
        protocol["per_participant"],
        attention=checks["attention"],
        degraded=bool(checks["degraded"]),
        repeats=checks["repeat"],
        seed=protocol["seed"],
    )
    return {
        "consent": {
            "text": protocol.text("consent", shown_language),
            "sha256": protocol.consent_sha256,
            "screening": protocol["screening"],
        },
        "guidelines": protocol.text("guidelines", shown_language),
        "form": protocol.form.shown_in(shown_language),
        "languages": list(protocol.languages),
        "sequence": [{"check": planned.check, "attention": planned.asks_attention} for planned in sequence],
    }


def _row(study: StoredStudy) -> dict[str, object]:
    return {"id": study.id, "name": study.name, "title": study.protocol["title"], **study.facts()}


def described(state: ServiceState, study: StoredStudy) -> dict[str, object]:
    """Return a study as answers have it."""
    protocol: Mapping[str, Any] = study.protocol.fields
    return {
        **_row(study),
        "protocol": dict(protocol),
        "consent_sha256": study.protocol.consent_sha256,
        "amendments": parts_of(state).studies.amendments(study),
        "counts": study_counts(state.database, study),
        "bots": study_slots(state.database, study),
    }
