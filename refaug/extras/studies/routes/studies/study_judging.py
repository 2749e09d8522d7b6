"""Routes of a study's report, agreement, disagreements and their adjudication, and of power before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from refaug.core.errors import BadInput
from refaug.core.records import json_form
from refaug.extras.studies.figures.disagreements import (
    AgreementFigure,
    agreement_cost,
    disagreements,
    require_possible_decision,
    running_agreement,
)
from refaug.extras.studies.participation.study_records import adjudicate, adjudications, study_records, unit_systems
from refaug.extras.studies.participation.study_store import StoredStudy, shows_pilot
from refaug.extras.studies.questions import protocol_questions
from refaug.extras.studies.records import StudyTask, TaskDecision
from refaug.extras.studies.report.numbers import StudyAnalysis, report_cost, study_report
from refaug.extras.studies.report.pages import study_page
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies.study_protocols import StudyId
from refaug.metrics.costs import require_work
from refaug.metrics.statistics.power import design_effect, ratings_needed, votes_needed
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import Deadline, acting, while_connected
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.request_lease import DeadlineProgress
from refaug.service.web.openapi import route_options
from refaug.service.web.schemas.common import ResponseModel, StrictModel
from refaug.service.web.scoring_limits import queue_places
from refaug.service.web.state import ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


_Answer = float | str


class StudyReportOut(ResponseModel):
    """The figures of a study."""

    report: dict[str, object] = Field(description="counts, exclusions, checks, analyses with and without exclusions")
    page: str | None = Field(description="the same as one HTML file without scripts, where it is asked for")


class QuestionAgreementOut(BaseModel):
    """How far participants agree on one question; null where it cannot be computed."""

    question: str = Field(description="its id; of labels of turns, with the label behind it")
    rows_are: str = Field(
        description="what several people judged: items, turns, or bots where each had their own chats"
    )
    rows: int = Field(description="how many of them have two ratings or more")
    participants: int = Field(description="who answered it")
    alpha_ordinal: float | None = Field(description="Krippendorff's α, ordinal")
    alpha_interval: float | None = Field(description="Krippendorff's α, interval")
    kappa_median: float | None = Field(description="the median κ of pairs of participants")
    ambiguous: float | None = Field(description="the share of items on which choices are even")


class StudyAgreementOut(ResponseModel):
    """Agreement so far."""

    questions: list[QuestionAgreementOut] = Field(description="those that were answered")


class AdjudicationOut(BaseModel):
    """What counts, as it was decided."""

    value: _Answer = Field(description="the answer that counts")
    note: str = Field(description="why")
    by: str = Field(description="the name of the key that decided it")
    at: str = Field(description="when")


class OneAnswerOut(BaseModel):
    """The answer of one participant."""

    participant: str = Field(description="their code")
    value: _Answer = Field(description="as it was given; of a choice, the system that was preferred, or tie")


class DisagreementOut(BaseModel):
    """One thing about which participants disagree."""

    item: str = Field(description="the unit that was judged")
    question: str = Field(description="its id")
    bot: str | None = Field(description="the one of two that the question is about")
    ratings: list[OneAnswerOut] = Field(description="the answers, by participant")
    spread: float = Field(description="their range as a share of the scale, 0 to 1")
    adjudicated: AdjudicationOut | None = Field(description="what was decided")


class DisagreementsOut(ResponseModel):
    """What participants disagree about, the widest first."""

    items: list[DisagreementOut] = Field(description="without those on which all agree")


class AdjudicationIn(StrictModel):
    """A decision about a disagreement."""

    item: str = Field(description="the unit that was judged", min_length=1, max_length=600)
    question: str = Field(description="id of the question", min_length=1, max_length=64)
    value: _Answer = Field(description="the answer that counts")
    note: str = Field(default="", description="why", max_length=2_000)


class OneAdjudicationOut(AdjudicationOut, ResponseModel):
    """The decision as it is kept."""


class PowerIn(StrictModel):
    """A study that is to be planned: what it should see, and how sure it should be."""

    difference: float | None = Field(default=None, description="of the means of two bots", gt=0, le=1e6)
    win_rate: float | None = Field(default=None, description="of one of two bots, without ties", gt=0, lt=1)
    sd: float = Field(default=1.3, description="standard deviation of a rating", gt=0, le=1e6)
    power: float = Field(default=0.8, description="chance to see it", gt=0, lt=1)
    alpha: float = Field(default=0.05, description="level of the two-sided test", gt=0, lt=1)
    ratings_per_participant: int = Field(default=1, description="of one bot, or votes", ge=1, le=200)
    rho: float = Field(default=0.3, description="correlation of the ratings of one participant", ge=0, le=1)


class PowerOut(ResponseModel):
    """How much a study needs."""

    n: int = Field(description="ratings of each bot, or votes on the pair")
    participants: int = Field(description="who are needed at least; each rates one of two bots, or votes on the pair")
    design_effect: float = Field(description="by how much several ratings of one person enlarge the number")


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["studies"])

_MOST_DISAGREEMENTS: Final = 200


def _tasks_of(state: ServiceState, study: StoredStudy) -> list[StudyTask]:
    """Return the tasks that are over, without the pilot once the study has opened."""
    return list(study_records(state.database, study, with_pilot=shows_pilot(state.database, study)))


@router.post("/studies/power", **route_options(Scope.STUDY, PowerOut, 422, body=PowerIn, other_scope=Scope.STUDY_READ))
async def plan_study(body: Annotated[PowerIn, Depends(body_of(PowerIn))]) -> Response:
    """How many ratings or votes show a difference, and how many participants they need."""
    if (body.difference is None) == (body.win_rate is None):
        raise BadInput("difference, win_rate: one of the two was expected", remedy='{"difference": 0.5}')
    effect = design_effect(body.ratings_per_participant, body.rho)
    if body.difference is not None:
        needed = ratings_needed(
            body.difference,
            sd=body.sd,
            power=body.power,
            alpha=body.alpha,
            per_participant=body.ratings_per_participant,
            rho=body.rho,
        )
    else:
        needed = votes_needed(body.win_rate or 0.0, power=body.power, alpha=body.alpha, deff=effect)
    groups = 1 if body.difference is None else 2  # a participant rates one of the two bots, and votes on both
    participants = groups * ceil(needed / body.ratings_per_participant)
    return json_response({"n": needed, "participants": participants, "design_effect": effect})


@router.get(
    "/studies/{id}/report", **route_options(Scope.STUDY, StudyReportOut, 404, 413, 422, other_scope=Scope.STUDY_READ)
)
async def get_study_report(
    request: Request,
    id: StudyId,
    deadline: Deadline,
    draws: Annotated[int, Query(description="draws of participants behind the intervals", ge=100, le=10_000)] = 1_000,
    page: Annotated[bool, Query(description="also as an HTML page, to keep as a file")] = False,
) -> Response:
    """Every figure of the study so far, computed when it is asked for."""
    return await while_connected(request, report_of(state_of(request), id, draws, deadline, with_page=page))


async def report_of(
    state: ServiceState, study_id: str, draws: int, deadline: float, *, with_page: bool = False
) -> Response:
    """Answer for a study in the queue of long work; TooLarge for more work than one request may be."""
    study = await database_threads.run_query(lambda: parts_of(state).studies.get(study_id))
    tasks = await database_threads.run_query(lambda: _tasks_of(state, study))
    analysis = StudyAnalysis.of_protocol(study.protocol.fields)
    settings = replace(analysis, draws=min(draws, analysis.draws), with_pilot=any(task.pilot for task in tasks))
    units = await asyncio.to_thread(report_cost, tasks, study.protocol.fields, settings.draws)
    work = partial(study_report, tasks, study.protocol.fields, settings)
    report = await _in_the_queue(state, work, units, deadline, f"a report on {len(tasks):,} tasks")
    page = await asyncio.to_thread(study_page, report) if with_page else None
    return json_response({"report": report, "page": page})


async def _in_the_queue(
    state: ServiceState, work: Callable[[Callable[[], None]], Any], units: float, deadline: float, what: str
) -> Any:
    remedy = "export the study, and measure it by command: refaug studies report"
    require_work(units, state.serve.scoring_s, what=what, setting="scoring_s", remedy=remedy)
    progress = DeadlineProgress(deadline)
    with progress.given_up_on_error():
        places = queue_places(units, state.serve)
        return await state.batcher.run(partial(work, progress.check), items=places, deadline=deadline, is_long=True)


@router.get(
    "/studies/{id}/agreement", **route_options(Scope.STUDY, StudyAgreementOut, 404, 413, other_scope=Scope.STUDY_READ)
)
async def get_study_agreement(request: Request, id: StudyId, deadline: Deadline) -> Response:
    """How far participants agree so far, by question."""
    return await while_connected(request, study_agreement(state_of(request), id, deadline))


async def study_agreement(state: ServiceState, study_id: str, deadline: float) -> Response:
    """Answer for a study in the queue of long work; TooLarge for more work than one request may be."""
    study = await database_threads.run_query(lambda: parts_of(state).studies.get(study_id))
    tasks = await database_threads.run_query(lambda: _tasks_of(state, study))
    units = await asyncio.to_thread(agreement_cost, tasks, study.protocol.fields)
    work = partial(running_agreement, tasks, study.protocol.fields)
    figures = await _in_the_queue(state, work, units, deadline, f"agreement over {len(tasks):,} tasks")
    return json_response({"questions": [_agreement_json(figure) for figure in figures]})


def _agreement_json(figure: AgreementFigure) -> dict[str, object]:
    return {
        "question": figure.question,
        "rows_are": figure.rows_are,
        "rows": figure.rows,
        "participants": figure.participants,
        "alpha_ordinal": figure.alpha_ordinal.value if figure.alpha_ordinal is not None else None,
        "alpha_interval": figure.alpha_interval.value if figure.alpha_interval is not None else None,
        "kappa_median": figure.kappa_median,
        "ambiguous": figure.ambiguous,
    }


@router.get(
    "/studies/{id}/disagreements", **route_options(Scope.STUDY, DisagreementsOut, 404, other_scope=Scope.STUDY_READ)
)
async def list_disagreements(
    request: Request,
    id: StudyId,
    limit: Annotated[int, Query(description="how many, the widest first", ge=1, le=_MOST_DISAGREEMENTS)] = 50,
) -> Response:
    """What participants disagree about most, with what was decided about it."""
    state = state_of(request)
    study = await database_threads.run_query(lambda: parts_of(state).studies.get(id))
    tasks = await database_threads.run_query(lambda: _tasks_of(state, study))
    decided = await database_threads.run_query(lambda: adjudications(state.database, study))
    listed = await asyncio.to_thread(disagreements, tasks, study.protocol.fields, limit)
    items = [
        {
            "item": entry.item,
            "question": entry.question,
            "bot": entry.bot,
            "ratings": [{"participant": person, "value": answer} for person, answer in entry.answers],
            "spread": entry.spread,
            "adjudicated": decided.get((entry.item, entry.question)),
        }
        for entry in listed
    ]
    return json_response({"items": items})


@router.put(
    "/studies/{id}/adjudications", **route_options(Scope.STUDY, OneAdjudicationOut, 404, 422, body=AdjudicationIn)
)
async def adjudicate_item(
    request: Request, id: StudyId, body: Annotated[AdjudicationIn, Depends(body_of(AdjudicationIn))]
) -> Response:
    """Decide what counts for a question of an item, with a reason; the answers of participants stay as they are."""
    state = state_of(request)

    def decide() -> TaskDecision:
        study = parts_of(state).studies.get(id)
        asked_questions = {question.id: question for question in protocol_questions(study.protocol.fields, ())}
        if body.question not in asked_questions:
            raise BadInput(
                f"question: the form has no question {body.question!r}", remedy=f"one of: {', '.join(asked_questions)}"
            )
        systems = unit_systems(state.database, study, body.item)
        require_possible_decision(asked_questions[body.question], body.value, systems)
        return adjudicate(
            state.database,
            study,
            item=body.item,
            question=body.question,
            answer=body.value,
            note=body.note,
            **acting(request),
        )

    return json_response(json_form(await database_threads.run_query(decide)))
