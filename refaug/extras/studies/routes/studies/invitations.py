"""Routes of invitations to studies."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies.study_protocols import STUDY, StudyId, acting
from refaug.extras.studies.schemas import InvitesIn, InvitesOut, NewInvitesOut, OneInviteOut
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.pagination import After, Limit, page_of
from refaug.service.web.openapi import errors
from refaug.service.web.state import state_of

router = APIRouter(prefix="/v1", tags=["studies"])

InviteId = Annotated[str, Path(description="id of the invitation", pattern=r"^[0-9a-z]{26}$")]


@router.post(
    "/studies/{id}/invites",
    status_code=201,
    dependencies=STUDY,
    openapi_extra=request_body(InvitesIn),
    responses={201: {"model": NewInvitesOut}, **errors(404, 409)},
)
async def create_invites(
    request: Request,
    id: StudyId,  # noqa: A002  the name in the address
    body: Annotated[InvitesIn, Depends(body_of(InvitesIn))],
) -> Response:
    """Make invitations; their tokens are in this answer alone."""
    state = state_of(request)

    def create() -> list[dict[str, object]]:
        pairs = parts_of(state).invites.create(
            parts_of(state).studies.get(id),
            count=body.count,
            label=body.label,
            uses_max=body.uses_max,
            expires=body.expires,
            **acting(request),
        )
        root = request.scope.get("root_path", "")
        return [{**invite.as_json(), "token": token, "link": f"{root}/take#{token}"} for token, invite in pairs]

    return json_response({"invites": await database_threads.run_query(create)}, status=201)


@router.get("/studies/{id}/invites", dependencies=STUDY, responses={200: {"model": InvitesOut}, **errors(404)})
async def list_invites(
    request: Request,
    id: StudyId,  # noqa: A002  the name in the address
    after: After = "",
    limit: Limit = 50,
) -> Response:
    """Invitations of a study, oldest first, with how often each was used."""
    state = state_of(request)

    def page() -> dict[str, object]:
        invites = {invite.id: invite for invite in parts_of(state).invites.list(parts_of(state).studies.get(id))}
        names, following = page_of(list(invites), after, limit)
        return {"invites": [invites[name].as_json() for name in names], "next": following}

    return json_response(await database_threads.run_query(page))


@router.delete(
    "/studies/{id}/invites/{invite}", dependencies=STUDY, responses={200: {"model": OneInviteOut}, **errors(404)}
)
async def revoke_invite(
    request: Request,
    id: StudyId,  # noqa: A002  the name in the address
    invite: InviteId,
) -> Response:
    """Let an invitation open nothing any more; participants whom it has let in go on. A second time changes nothing."""
    state = state_of(request)
    revoked = await database_threads.run_query(
        lambda: parts_of(state).invites.revoke(parts_of(state).studies.get(id), invite, **acting(request))
    )
    return json_response(revoked.as_json())
