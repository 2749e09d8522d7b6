"""Routes of participants' tasks: the next one, messages, votes, answers, finishing, skipping."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from refaug.extras.studies.routes.participants.sessions import ActionId, action_of, answered, participant_of
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.schemas import ActionOut, AnswersIn, EmptyIn, MessageIn, SkipIn, VoteIn
from refaug.service.web.connection.body import parse_body, read_body, request_body
from refaug.service.web.openapi import errors
from refaug.service.web.state import state_of

router = APIRouter(prefix="/v1/take/tasks", tags=["take"])

ParticipantId = Annotated[str, Depends(participant_of)]
TaskId = Annotated[str, Path(description="id of the task, as the state has it", pattern=r"^[0-9a-z]{26}$")]
_DONE: Final[dict[int | str, dict[str, object]]] = {200: {"model": ActionOut}, **errors(401, 403, 404, 409, 429)}


@router.post("/next", openapi_extra=request_body(EmptyIn), responses=_DONE)
async def take_next_task(request: Request, participant: ParticipantId, action: ActionId) -> Response:
    """Reserve the next task; a participant who is in a task keeps it, and one for whom there is none is done."""
    state, raw = state_of(request), await read_body(request)
    await parse_body(EmptyIn, raw)
    page_action = action_of(request, action, "next", raw)
    return await answered(state, participant, lambda: parts_of(state).desk.next_task(participant, page_action))


@router.post("/{task}/messages", openapi_extra=request_body(MessageIn), responses=_DONE)
async def send_message(request: Request, participant: ParticipantId, task: TaskId, action: ActionId) -> Response:
    """Say something to the bot; its reply is asked for after this is stored, and comes with the state.

    A message that is not the next one, or that comes while a reply is being made, is refused (409).
    """
    state, raw = state_of(request), await read_body(request)
    body, page_action = await parse_body(MessageIn, raw), action_of(request, action, "message", raw, task)
    return await answered(
        state,
        participant,
        lambda: parts_of(state).desk.message(participant, page_action, task, n=body.n, text=body.text),
        asks=task,
    )


@router.post("/{task}/retry", openapi_extra=request_body(EmptyIn), responses=_DONE)
async def ask_again(request: Request, participant: ParticipantId, task: TaskId, action: ActionId) -> Response:
    """Ask once more for a reply that has failed."""
    state, raw = state_of(request), await read_body(request)
    await parse_body(EmptyIn, raw)
    page_action = action_of(request, action, "retry", raw, task)
    return await answered(
        state, participant, lambda: parts_of(state).desk.ask_again(participant, page_action, task), asks=task
    )


@router.post("/{task}/votes", openapi_extra=request_body(VoteIn), responses=_DONE)
async def vote_on_reply(request: Request, participant: ParticipantId, task: TaskId, action: ActionId) -> Response:
    """Vote on a reply: 1, -1, or 0 to take a vote back."""
    state, raw = state_of(request), await read_body(request)
    body, page_action = await parse_body(VoteIn, raw), action_of(request, action, "vote", raw, task)
    return await answered(
        state,
        participant,
        lambda: parts_of(state).desk.vote(participant, page_action, task, side=body.side, n=body.n, vote=body.value),
    )


@router.post("/{task}/answers", openapi_extra=request_body(AnswersIn), responses=_DONE)
async def store_answers(request: Request, participant: ParticipantId, task: TaskId, action: ActionId) -> Response:
    """Store answers; they may be changed until the task is finished."""
    state, raw = state_of(request), await read_body(request)
    body, page_action = await parse_body(AnswersIn, raw), action_of(request, action, "answers", raw, task)
    return await answered(
        state,
        participant,
        lambda: parts_of(state).desk.answers(participant, page_action, task, body.answers, side=body.side, turn=body.n),
    )


@router.post("/{task}/finish", openapi_extra=request_body(EmptyIn), responses=_DONE)
async def finish_task(request: Request, participant: ParticipantId, task: TaskId, action: ActionId) -> Response:
    """Finish the task; refused (409) while messages or answers are missing, whatever the page says."""
    state, raw = state_of(request), await read_body(request)
    await parse_body(EmptyIn, raw)
    page_action = action_of(request, action, "finish", raw, task)
    return await answered(state, participant, lambda: parts_of(state).desk.finish(participant, page_action, task))


@router.post("/{task}/skip", openapi_extra=request_body(SkipIn), responses=_DONE)
async def skip_task(request: Request, participant: ParticipantId, task: TaskId, action: ActionId) -> Response:
    """Leave the task out, with a reason; a task whose bot gives no reply is not counted."""
    state, raw = state_of(request), await read_body(request)
    body, page_action = await parse_body(SkipIn, raw), action_of(request, action, "skip", raw, task)
    return await answered(
        state, participant, lambda: parts_of(state).desk.skip(participant, page_action, task, body.reason)
    )
