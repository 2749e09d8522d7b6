"""Routes of responses: a list that is filtered and sorted here, and what became of people whom a recruiter names."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from refaug.core.memory import BoundedCache
from refaug.core.records import json_form
from refaug.extras.studies.exclusions import BrokenRule, exclusions
from refaug.extras.studies.figures.responses import ResponseOrder, ResponseQuery, StudyResponses, study_responses
from refaug.extras.studies.participation.study_figures import RecruitedPerson, recruited_people, study_stamp
from refaug.extras.studies.participation.study_records import study_records
from refaug.extras.studies.participation.study_store import StoredStudy, shows_pilot
from refaug.extras.studies.questions import protocol_questions
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies.study_protocols import StudyId
from refaug.service.database.database import Database
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import Limit, add_audit_row
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import route_options
from refaug.service.web.schemas.common import ResponseModel, StrictModel
from refaug.service.web.state import state_of

router = APIRouter(prefix="/v1", tags=["studies"])

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class FlagOut(BaseModel):
    """Something conspicuous."""

    rule: str = Field(description="the rule of the protocol, or what is conspicuous about the task")
    detail: str = Field(description="what was seen")


class StudyResponseOut(BaseModel):
    """What one participant answered in one task."""

    task: str = Field(description="its id, as in the export")
    participant: str = Field(description="their code")
    position: int = Field(description="the place among the tasks of the participant, from 1")
    item: str | None = Field(description="the unit that was judged; null for a chat")
    bots: list[str] = Field(description="those of the task, from the left")
    state: Literal["done", "skipped", "expired"] = Field(description="how it ended")
    check: str | None = Field(description="what it checks; null for a plain task")
    seconds: float | None = Field(description="that it took")
    ended: str | None = Field(description="when")
    scores: dict[str, float] = Field(description="by question, the mean over its sides; higher is better")
    chosen: dict[str, str] = Field(description="by question, the bot that was preferred, or tie")
    comment: str = Field(description="the beginning of what was written in questions for texts")
    flags: list[FlagOut] = Field(description="about the task, and rules that leave its participant out")


class StudyResponsesOut(ResponseModel):
    """A page of responses."""

    responses: list[StudyResponseOut] = Field(description="in the order that was asked for")
    total: int = Field(description="how many pass the filters")
    offset: int = Field(description="how many of them come before this page")


_PersonId = Annotated[str, Field(min_length=1, max_length=200)]


class RecruitsIn(StrictModel):
    """Ids of a recruiting service, as its list of submissions has them; they are looked up, and not kept."""

    ids: Annotated[list[_PersonId], Field(min_length=1, max_length=10_000, description="one of each person")]
    parameter: Literal[
        "PROLIFIC_PID", "workerId", "participantId", "participant_id", "survey_code", "rid", "pid", "id"
    ] = Field(default="PROLIFIC_PID", description="of the address, by which the service passes them on")


class RecruitOut(BaseModel):
    """What became of a person."""

    id: str = Field(description="as it was sent")
    decision: Literal["approve", "look", "at_it", "return", "screened_out", "unknown"] = Field(
        description="`approve`: finished; `look`: finished, but left out of the report; `at_it`: not finished, but "
        "seen within five minutes or with a task that is still reserved; `return`: did not finish; `unknown`: nobody "
        "came with this id, or what they did is erased"
    )
    code: str | None = Field(description="of the participant in this study")
    state: str | None = Field(description="of the participant")
    minutes: float | None = Field(description="time spent")
    reasons: list[str] = Field(description="why they are left out, or were screened out")


class RecruitsOut(ResponseModel):
    """What became of all of them."""

    recruits: list[RecruitOut] = Field(description="in the order sent, each id once")


# ── Responses ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ResponseLists:
    """The responses of the studies that were looked at last: reading all tasks takes long, and a list has many pages.

    A list is made anew when a task has ended, was taken back or erased, or a participant was left out by hand; by one
    request at a time, while others that want it wait.
    """

    _lists: BoundedCache[str, tuple[Sequence[object], StudyResponses]] = field(default_factory=lambda: BoundedCache(4))
    _making: threading.Lock = field(default_factory=threading.Lock)

    def of(self, database: Database, study: StoredStudy) -> StudyResponses:
        """Return the responses of a study as they are now: without the pilot once it has opened."""
        ready = self._known(study, study_stamp(database, study))
        if ready is not None:
            return ready
        with self._making:
            stamp = study_stamp(database, study)  # taken again: the thread before may have made the list
            return self._known(study, stamp) or self._made(database, study, stamp)

    def _known(self, study: StoredStudy, stamp: Sequence[object]) -> StudyResponses | None:
        newest = self._lists.get(study.id)
        return newest[1] if newest is not None and newest[0] == stamp else None

    def _made(self, database: Database, study: StoredStudy, stamp: Sequence[object]) -> StudyResponses:
        protocol = study.protocol.fields
        tasks = list(study_records(database, study, with_pilot=shows_pilot(database, study)))
        questions = protocol_questions(protocol, ())
        texts = {question["id"] for question in protocol["form"]["questions"] if question["type"] == "text"}
        left_out = exclusions(tasks, protocol["exclude"] or {}, questions)
        responses = study_responses(tasks, left_out, questions, texts)
        self._lists.put(study.id, (stamp, responses))
        return responses


_LISTS: Final = ResponseLists()
_Bound = Annotated[float | None, Query(description="of the scores by `question`")]


@router.get(
    "/studies/{id}/responses",
    **route_options(Scope.STUDY, StudyResponsesOut, 404, other_scope=Scope.STUDY_READ),
)
async def list_responses(
    request: Request,
    id: StudyId,
    bot: Annotated[str, Query(description="only tasks with this bot", max_length=200)] = "",
    participant: Annotated[str, Query(description="only those of this code", max_length=20)] = "",
    item: Annotated[str, Query(description="only those about this unit", max_length=600)] = "",
    flag: Annotated[str, Query(description="only those with this flag; `any`, or `none`, of them", max_length=64)] = "",
    question: Annotated[str, Query(description="whose scores are filtered and sorted by", max_length=64)] = "",
    low: _Bound = None,
    high: _Bound = None,
    sort: Annotated[Literal["ended", "score", "seconds"], Query(description="what they are sorted by")] = "ended",
    order: Annotated[Literal["ascending", "descending"], Query(description="which comes first")] = "descending",
    offset: Annotated[int, Query(description="how many to leave out", ge=0, le=2**31 - 1)] = 0,
    limit: Limit = 50,
) -> Response:
    """Responses of a study, without those of the pilot once it has opened: filtered and sorted here.

    Flags are `skipped`, `expired`, `wrong_attention`, `same_answer`, `names_bot` and `commented` of a task, and the
    rules of the protocol that its participant has broken.
    """
    state = state_of(request)
    query = ResponseQuery(
        bot=bot,
        participant=participant,
        item=item,
        flag=flag,
        question=question,
        low=low,
        high=high,
        order=ResponseOrder(sort),
        is_descending=order == "descending",
    )

    def page() -> dict[str, object]:
        responses = query.of(_LISTS.of(state.database, parts_of(state).studies.get(id)).responses)
        return {
            "responses": [json_form(response) for response in responses[offset : offset + limit]],
            "total": len(responses),
            "offset": offset,
        }

    return json_response(await database_threads.run_query(page))


# ── What became of people whom a recruiting service names ─────────────────────────────────────────────────────────────


@router.post(
    "/studies/{id}/recruits",
    **route_options(Scope.STUDY, RecruitsOut, 404, body=RecruitsIn),
)
async def find_recruits(
    request: Request, id: StudyId, body: Annotated[RecruitsIn, Depends(body_of(RecruitsIn))]
) -> Response:
    """What became of people by their ids of a recruiting service; the ids are hashed, compared, and not kept.

    The audit log says who looked and how many ids they sent, since a guessed id reveals a person's code.
    """
    state = state_of(request)

    def look_up() -> list[dict[str, object]]:
        study = parts_of(state).studies.get(id)
        broken = _LISTS.of(state.database, study).broken
        hashes = {person: study.keyed_hash(f"{body.parameter}={person}") for person in dict.fromkeys(body.ids)}
        add_audit_row(request, "look up", f"recruits of study {study.name}", ids=len(hashes))
        people = recruited_people(state.database, study, list(hashes.values()))
        return [_recruit(person, people.get(own), broken) for person, own in hashes.items()]

    return json_response({"recruits": await database_threads.run_query(look_up)})


def _recruit(
    person: str, row: RecruitedPerson | None, broken_by: Mapping[str, Sequence[BrokenRule]]
) -> dict[str, object]:
    if row is None:
        return {"id": person, "decision": "unknown", "code": None, "state": None, "minutes": None, "reasons": []}
    broken = broken_by.get(row.code, ())
    own = [row.excluded_reason] if row.excluded_reason else []
    reasons = [f"{rule.rule}: {rule.detail}" for rule in broken] or own
    if row.state == "done":
        decision = "look" if reasons else "approve"
    elif row.is_at_it:
        decision = "at_it"
    else:
        decision = "screened_out" if row.state in ("screened_out", "full") else "return"
    if decision == "screened_out":
        reasons = [row.reason or row.state]
    return {
        "id": person,
        "decision": decision,
        "code": row.code,
        "state": row.state,
        "minutes": round(row.active_ms / 60_000, 2),
        "reasons": reasons,
    }
