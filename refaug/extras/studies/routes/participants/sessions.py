"""Routes of participants: sessions, state, consent, training, withdrawing, their own data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.backoff import Backoff
from refaug.core.errors import NotAllowed
from refaug.extras.studies import schemas
from refaug.extras.studies.participation.invites import SESSION_DAYS, Visitor, WrongInvite, is_resume_token
from refaug.extras.studies.participation.participant_acts import ACTION_ID, ParticipantAction
from refaug.extras.studies.participation.participant_desk import ParticipantDesk
from refaug.extras.studies.participation.signed_links import find_person
from refaug.extras.studies.routes.parts import parts_of
from refaug.service.keys import Key
from refaug.service.web.answers import json_response
from refaug.service.web.connection.admission import lent_place
from refaug.service.web.connection.body import Model, parse_body, read_body, request_body
from refaug.service.web.dependencies import while_connected
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import errors
from refaug.service.web.state import ServiceState, state_of

# ── Who a participant is to the server: the cookie of a session, and the id of an action ──────────────────────────────
#
# The cookie is sent only by pages of this server (`SameSite=Strict`) and only to these routes; a form of another site
# can send neither the header of an action nor JSON. Requests of a participant have a limit as those of a key.

COOKIE: Final = "refaug_take"
PATH: Final = "/v1/take"
_REQUESTS_A_SECOND: Final = 100.0
INVITATIONS_A_SECOND: Final = 200.0  # of all who come

ActionId = Annotated[
    str,
    Header(
        alias="X-Action",
        description="An id that the page draws for this action. Sent again with the same body, it gets the same "
        "answer; with another body it is 409 `conflict`.",
        pattern=f"^{ACTION_ID.pattern}$",
    ),
]


async def participant_of(request: Request) -> str:
    """Return the participant of a request; NoKey where its browser has no session, TooMany where it asks too often.

    The row of the session is looked at each time: what any process has ended is over with the next request to all.
    """
    state, cookie = state_of(request), request.cookies.get(COOKIE)
    participant = await database_threads.run_query(lambda: parts_of(state).invites.participant_of(cookie))
    limit_requests(state, f"participant {participant}")
    return participant


def limit_requests(state: ServiceState, sender: str, rate_per_s: float = _REQUESTS_A_SECOND) -> None:
    """Count a request of a participant, or of all who open invitations; TooMany for too many in a second."""
    rate = rate_per_s * state.serve.workers
    parts_of(state).participant_limits.take(
        Key(id=sender, name=sender.partition(" ")[0], scopes=frozenset(), rate_per_s=rate)
    )


def require_same_site(request: Request) -> None:
    """Raise NotAllowed for a request that a page of another site makes an old browser send; the gate sees new ones."""
    origin = request.headers.get("origin")
    if origin is None or "sec-fetch-site" in request.headers:
        return
    if urlsplit(origin).netloc != request.headers.get("host", ""):
        raise NotAllowed("a page of another site has sent this", remedy="open the link of the invitation")


def session_cookie(request: Request, secret: str) -> dict[str, Any]:
    """Return the arguments of `Response.set_cookie` for a session."""
    return {
        "key": COOKIE,
        "value": secret,
        "max_age": SESSION_DAYS * 86_400,
        "path": f"{request.scope.get('root_path', '')}{PATH}",
        "httponly": True,
        "samesite": "strict",
        "secure": request.url.scheme == "https",
    }


# ── Routes of participants: sessions, state, consent, training, withdrawing, their own data ───────────────────────────

router = APIRouter(prefix="/v1/take", tags=["take"])

ParticipantId = Annotated[str, Depends(participant_of)]
MOST_WAIT_S: Final = 25.0
_FIRST_LOOK_S: Final = 0.2  # for a reply that another process makes
_NEXT_LOOKS_S: Final = 2.0
DONE: Final[dict[int | str, dict[str, object]]] = {200: {"model": schemas.ActionOut}, **errors(401, 403, 404, 409, 429)}


@router.post(
    "/session",
    openapi_extra=request_body(schemas.SessionIn),
    responses={200: {"model": schemas.SessionOut}, **errors(403, 404, 409, 429)},
)
async def open_session(request: Request, action: ActionId) -> Response:
    """Exchange the token of an invitation for a session, and begin where the participant was, or anew.

    The answer sets a cookie that scripts cannot read, and has `resume` for a new participant. The same person comes
    back by the cookie, by `resume`, by an invitation for one use, or by the same X-Action where the first answer was
    lost. The id of a recruiting service begins once: 403 where it takes part already and none of these comes with it.
    404 for a token that is none; 409 for a study that has not begun, pauses or is over; 429 where too many new people
    come by one invitation from one address. With the setting `recruiter_keys`, 403 for an id that is not signed by one
    of them; a signed one leads back. The token (a JSON Web Token by RS256) is the parameter `prolific_token`, `jwt` or
    `token`; its signature, `exp`, `nbf` and `aud` are checked, and the person is `PROLIFIC_PID`, `workerId`,
    `participantId` or `participant_id` among its claims or in an object among them, else `sub`.
    """
    require_same_site(request)
    state, cookie = state_of(request), request.cookies.get(COOKIE)
    address = request.client.host if request.client is not None else ""
    body = await parse_body(schemas.SessionIn, await read_body(request))
    limit_requests(state, "invitations", INVITATIONS_A_SECOND)
    try:
        person, is_signed = await _person(state, body)
        visitor = Visitor(action=action, person=person, is_signed=is_signed, language=body.language, cookie=cookie)
        opened = await database_threads.run_query(
            lambda: parts_of(state).invites.open_session(
                body.token, visitor, admit=lambda invite: parts_of(state).newcomers.count(invite, address)
            )
        )
    except WrongInvite:
        state.wrong_keys.count("", address)
        raise
    response = json_response({**await shown_state(state, opened.participant), "resume": opened.resume})
    response.set_cookie(**session_cookie(request, opened.cookie))
    return response


async def _person(state: ServiceState, body: schemas.SessionIn) -> tuple[str | None, bool]:
    """Return the id of who opens a link, and whether the recruiting service has signed it."""
    signed = parts_of(state).signed_links
    if signed is None or is_resume_token(body.token):
        return find_person(body.external), False
    person = await run_in_threadpool(signed.person, body.external)  # it may fetch keys
    return person, person is not None


@router.get("/state", responses={200: {"model": schemas.TakeStateOut}, **errors(401, 429)})
async def get_state(
    request: Request,
    participant: ParticipantId,
    wait: Annotated[float, Query(description="seconds to wait for a reply", ge=0, le=MOST_WAIT_S)] = 0,
) -> Response:
    """The whole state of the participant.

    A reply that was being made when the server ended is asked for again. With `wait` the answer comes when no reply of
    the current task is being made any more, or after so many seconds. While it waits, it takes no place of the other
    requests; where too many wait already, the answer comes at once.
    """
    state = state_of(request)
    task = await _asking_task(state, participant) if wait else None
    if task is not None:
        with lent_place(request.scope) as may_wait:
            if may_wait:
                await while_connected(request, _wait_for_replies(state, participant, task, wait))
    return json_response(await shown_state(state, participant))


async def shown_state(state: ServiceState, participant: str) -> Mapping[str, Any]:
    """Return the state of a participant, and have replies made that are asked for."""
    content = await database_threads.run_query(lambda: parts_of(state).desk.state(participant))
    if _is_waiting(content):
        parts_of(state).replies.start(content["task"]["id"])
    return content


def _is_waiting(content: Mapping[str, Any]) -> bool:
    task = content["task"]
    return task is not None and any(
        message["state"] == "asked" for side in task["sides"] for message in side["messages"][-1:]
    )


async def _asking_task(state: ServiceState, participant: str) -> str | None:
    return await database_threads.run_query(lambda: parts_of(state).desk.asking_task(participant))


async def _wait_for_replies(state: ServiceState, participant: str, task: str | None, wait: float) -> None:
    """Return when no reply is being made for a participant, or after so many seconds; looking is cheap, and rare."""
    until, backoff = time.monotonic() + wait, Backoff(_FIRST_LOOK_S, _NEXT_LOOKS_S)
    while task is not None and (remaining := until - time.monotonic()) > 0:
        parts_of(state).replies.start(task)  # the process that was making it may have died
        await parts_of(state).replies.wait(task, remaining, look_s=backoff.next_s())
        task = await _asking_task(state, participant)


# The arguments of the desk that say who has done what.
Deed = tuple[str, ParticipantAction]


@dataclass(frozen=True, kw_only=True)
class ActingParticipant:
    """The participant who has sent an action."""

    request: Request
    participant: str
    action: str

    async def act(
        self,
        kind: str,
        model: type[Model],
        work: Callable[[ParticipantDesk, Deed, Model], Mapping[str, Any]],
        *,
        task: str | None = None,
        asks: bool = False,
    ) -> Response:
        """Read the body, do what it says, and answer with the state; with `asks` the replies of the task are made."""
        state, raw = state_of(self.request), await read_body(self.request)
        body = await parse_body(model, raw)
        require_same_site(self.request)
        deed = self.participant, ParticipantAction(id=self.action, kind=kind, task=task, body=raw)
        done = await database_threads.run_query(lambda: work(parts_of(state).desk, deed, body))
        if asks and task is not None:
            parts_of(state).replies.start(task)
        return json_response({"done": done, "state": await shown_state(state, self.participant)})


async def acting_participant(  # async, although it awaits nothing: FastAPI would run it in a thread otherwise
    request: Request, participant: ParticipantId, action: ActionId
) -> ActingParticipant:
    """Return who has sent an action."""
    return ActingParticipant(request=request, participant=participant, action=action)


Acting = Annotated[ActingParticipant, Depends(acting_participant)]


@router.post("/consent", openapi_extra=request_body(schemas.ConsentIn), responses=DONE)
async def give_consent(acting: Acting) -> Response:
    """Agree to the text whose hash is named; screening and quotas decide whether the participant takes part."""
    return await acting.act(
        "consent",
        schemas.ConsentIn,
        lambda desk, deed, body: desk.consent(*deed, sha256=body.sha256, agree=body.agree, screening=body.screening),
    )


@router.post("/training", openapi_extra=request_body(schemas.TrainingIn), responses=DONE)
async def answer_training(acting: Acting) -> Response:
    """Answer an item of the training; the state has the feedback, and the gate opens after enough right ones."""
    return await acting.act(
        "training",
        schemas.TrainingIn,
        lambda desk, deed, body: desk.training(*deed, item=body.item, answers=body.answers),
    )


@router.post("/undo", openapi_extra=request_body(schemas.EmptyIn), responses=DONE)
async def undo_action(acting: Acting) -> Response:
    """Take back the last vote, answer or end of a task, as far as the study allows it."""
    return await acting.act("undo", schemas.EmptyIn, lambda desk, deed, _: desk.undo(*deed))


@router.post("/withdraw", openapi_extra=request_body(schemas.EmptyIn), responses=DONE)
async def withdraw(acting: Acting) -> Response:
    """Erase all texts and answers of the participant, and keep the fact; it cannot be undone."""
    return await acting.act("withdraw", schemas.EmptyIn, lambda desk, deed, _: desk.withdraw(*deed))


@router.get("/export", responses={200: {"model": schemas.OwnDataOut}, **errors(401, 429)})
async def export_own_data(request: Request, participant: ParticipantId) -> Response:
    """Everything that is stored of the participant."""
    state = state_of(request)
    return json_response(await database_threads.run_query(lambda: parts_of(state).desk.own_data(participant)))
