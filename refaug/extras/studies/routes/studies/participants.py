"""Routes of invitations and of participants: a list with time and pay, one's tasks, exclusion, erasure."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from refaug.core.records import json_form
from refaug.extras.studies import schemas
from refaug.extras.studies.participation.erasure import erase_participant
from refaug.extras.studies.participation.study_figures import exclude_participant, participant_rows
from refaug.extras.studies.participation.study_records import study_records
from refaug.extras.studies.records import StudyTask
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies.study_protocols import StudyId
from refaug.extras.studies.schemas import InvitesIn, InvitesOut, NewInvitesOut, OneInviteOut
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import After, Limit, acting, key_of, page_of
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import route_options
from refaug.service.web.state import state_of

router = APIRouter(prefix="/v1", tags=["studies"])

InviteId = Annotated[str, Path(description="id of the invitation", pattern=r"^[0-9a-z]{26}$")]


@router.post("/studies/{id}/invites", **route_options(Scope.STUDY, {201: NewInvitesOut}, 404, 409, body=InvitesIn))
async def create_invites(
    request: Request, id: StudyId, body: Annotated[InvitesIn, Depends(body_of(InvitesIn))]
) -> Response:
    """Make invitations; their tokens are in this answer alone."""
    state = state_of(request)

    def create() -> list[dict[str, object]]:
        study = parts_of(state).studies.get(id)
        pairs = parts_of(state).invites.create(study, **dict(body), **acting(request))
        root = request.scope.get("root_path", "")
        return [{**invite.as_json(), "token": token, "link": f"{root}/take#{token}"} for token, invite in pairs]

    return json_response({"invites": await database_threads.run_query(create)}, status=201)


@router.get("/studies/{id}/invites", **route_options(Scope.STUDY, InvitesOut, 404, other_scope=Scope.STUDY_READ))
async def list_invites(request: Request, id: StudyId, after: After = "", limit: Limit = 50) -> Response:
    """Invitations of a study, oldest first, with how often each was used."""
    state = state_of(request)

    def page() -> dict[str, object]:
        invites = {invite.id: invite for invite in parts_of(state).invites.list(parts_of(state).studies.get(id))}
        names, following = page_of(list(invites), after, limit)
        return {"invites": [invites[name].as_json() for name in names], "next": following}

    return json_response(await database_threads.run_query(page))


@router.delete("/studies/{id}/invites/{invite}", **route_options(Scope.STUDY, OneInviteOut, 404))
async def revoke_invite(request: Request, id: StudyId, invite: InviteId) -> Response:
    """Let an invitation open nothing any more; participants whom it has let in go on. A second time changes nothing."""
    state = state_of(request)
    revoked = await database_threads.run_query(
        lambda: parts_of(state).invites.revoke(parts_of(state).studies.get(id), invite, **acting(request))
    )
    return json_response(revoked.as_json())


ParticipantCode = Annotated[str, Path(description="code of the participant", pattern=r"^P-[0-9A-Z]{6}$")]


@router.get(
    "/studies/{id}/participants",
    **route_options(Scope.STUDY, schemas.StudyParticipantsOut, 404, other_scope=Scope.STUDY_READ),
)
async def list_participants(
    request: Request,
    id: StudyId,
    after: After = "",
    limit: Limit = 50,
    active: Annotated[bool, Query(description="only who is at it: not at an end, seen within five minutes")] = False,
) -> Response:
    """Participants by code, with what they did, the time that they spent, and what they are to be paid.

    Completion codes are null for keys without the scope study: they prove at a recruiting service who is to be paid.
    """
    state = state_of(request)
    hidden = {} if key_of(request).allows(Scope.STUDY) else {"completion_code": None}

    def page() -> dict[str, object]:
        study = parts_of(state).studies.get(id)
        rows, following = participant_rows(state.database, study, after=after, limit=limit, only_active=active)
        return {"participants": [{**row, **hidden} for row in rows], "next": following}

    return json_response(await database_threads.run_query(page))


@router.get(
    "/studies/{id}/participants/{code}",
    **route_options(Scope.STUDY, schemas.ParticipantTasksOut, 404, other_scope=Scope.STUDY_READ),
)
async def get_participant(request: Request, id: StudyId, code: ParticipantCode) -> Response:
    """Everything that one participant did."""
    state = state_of(request)

    def tasks() -> list[StudyTask]:
        return list(study_records(state.database, parts_of(state).studies.get(id), participant=code))

    return json_response({"code": code, "tasks": json_form(await database_threads.run_query(tasks))})


@router.put(
    "/studies/{id}/participants/{code}/exclusion",
    **route_options(Scope.STUDY, schemas.OneParticipantOut, 404, body=schemas.ExclusionIn),
)
async def exclude_from_report(
    request: Request,
    id: StudyId,
    code: ParticipantCode,
    body: Annotated[schemas.ExclusionIn, Depends(body_of(schemas.ExclusionIn))],
) -> Response:
    """Leave a participant out of the report, with a reason, or take them in again; the report shows both."""
    state = state_of(request)
    await database_threads.run_query(
        lambda: exclude_participant(
            state.database, parts_of(state).studies.get(id), code, reason=body.reason, **acting(request)
        )
    )
    return json_response({"code": code, "excluded": body.reason})


@router.post(
    "/studies/{id}/participants/{code}/resume-link",
    **route_options(Scope.STUDY, {201: schemas.ResumeLinkOut}, 404, 409),
)
async def renew_resume_link(request: Request, id: StudyId, code: ParticipantCode) -> Response:
    """Make a new link by which a participant goes on; their former links and all their sessions end.

    The token is in this answer alone. Give it only to whom you know to be the participant: it opens what they wrote.
    """
    state = state_of(request)
    token = await database_threads.run_query(
        lambda: parts_of(state).invites.renew_resume_link(parts_of(state).studies.get(id), code, **acting(request))
    )
    root = request.scope.get("root_path", "")
    return json_response({"code": code, "token": token, "link": f"{root}/take#{token}"}, status=201)


@router.delete("/studies/{id}/participants/{code}", **route_options(Scope.STUDY, schemas.ErasedParticipantOut, 404))
async def erase_study_participant(request: Request, id: StudyId, code: ParticipantCode) -> Response:
    """Erase all texts and answers of a participant; that there was one stays, and reports are computed anew."""
    state = state_of(request)
    await database_threads.run_query(
        lambda: erase_participant(state.database, parts_of(state).studies.get(id), code, **acting(request))
    )
    return json_response({"code": code})
