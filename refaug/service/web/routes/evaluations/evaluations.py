"""Routes of evaluations: asking for one, listing, reading, cancelling or removing, retrying, downloading, comparing."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, RootModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response, StreamingResponse

from refaug.core.errors import Conflict, NotFound, Usage
from refaug.scoring.comparison.comparison import ComparisonRequest, compare
from refaug.scoring.comparison.reply_changes import ChangeFilter
from refaug.scoring.score_files.score_file import ScoreFile
from refaug.scoring.score_report.report import csv_pieces, page
from refaug.scoring.score_views.score_view import summary_json
from refaug.service.database.row_ids import is_row_id
from refaug.service.evaluations import evaluation_store
from refaug.service.evaluations.evaluation_store import AGREEMENT, StoredEvaluation, evaluation_not_found
from refaug.service.evaluations.uploads import upload_in
from refaug.service.jobs.job_order import EvaluationOrder, parse_order
from refaug.service.jobs.store import Job, JobState
from refaug.service.jobs.worker import EndedJobs
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import parse_body, read_body
from refaug.service.web.dependencies import (
    AfterRow,
    Deadline,
    Limit,
    acting,
    key_of,
    try_to_add_audit_row,
    while_connected,
)
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.job_queueing import (
    CreatedResource,
    IdempotencyKey,
    create_once_in_database,
    enqueue_job,
    require_sources,
    sources_of,
    with_owner,
)
from refaug.service.web.handling.request_lease import DeadlineProgress
from refaug.service.web.handling.turns import Turns
from refaug.service.web.openapi import BINARY, created, raw, route_options
from refaug.service.web.routes.evaluations import access
from refaug.service.web.schemas.common import Page, ResponseModel
from refaug.service.web.state import ServiceState, state_of
from refaug.service.web.visibility import EVALUATION_KINDS, evaluation_job, find_result, is_visible, visible_result


class DownloadForm(StrEnum):
    """The form of a downloaded evaluation."""

    JSON = "json"
    CSV = "csv"
    LATEX = "latex"
    HTML = "html"


_MEDIA_TYPES: Final[Mapping[DownloadForm, str]] = {
    DownloadForm.JSON: "application/json",
    DownloadForm.CSV: "text/csv; charset=utf-8",
    DownloadForm.LATEX: "application/x-tex",
    DownloadForm.HTML: "text/html; charset=utf-8",
}
_ENDINGS: Final[Mapping[DownloadForm, str]] = {
    DownloadForm.JSON: "json",
    DownloadForm.CSV: "csv",
    DownloadForm.LATEX: "tex",
    DownloadForm.HTML: "html",
}
_FILES: Final[Mapping[str, Mapping[DownloadForm, str]]] = {
    "score": {DownloadForm.JSON: evaluation_store.SCORES, DownloadForm.LATEX: evaluation_store.SCORES_LATEX},
    "meta": {
        DownloadForm.JSON: evaluation_store.AGREEMENT,
        DownloadForm.CSV: evaluation_store.AGREEMENT_CSV,
        DownloadForm.LATEX: evaluation_store.AGREEMENT_LATEX,
        DownloadForm.HTML: evaluation_store.AGREEMENT_PAGE,
    },
}


@dataclass(frozen=True, kw_only=True)
class ComparedSystems:
    """The systems of two evaluations that are compared: one in both, or one of each; else all in both."""

    system: str | None = None
    first: str | None = None
    second: str | None = None

    @property
    def pair(self) -> tuple[str, str] | None:
        """One system of each evaluation; Usage where only one of them is named, or a third beside them."""
        if self.first is None and self.second is None:
            return None
        if self.first is None or self.second is None or self.system is not None:
            raise Usage(
                "first_system and second_system go together, without system", remedy="name both, or only system"
            )
        return self.first, self.second


def download(request: Request, stored: StoredEvaluation, form: DownloadForm) -> Response:
    """Return an evaluation as a file; those of scores that are long to write are made from the document."""
    # A page of a report is a document of its own: it opens from a disk, never inside this site.
    headers = {"Content-Disposition": f'attachment; filename="{stored.kind}-{stored.id}.{_ENDINGS[form]}"'}
    if (file := _FILES[stored.kind].get(form)) is not None:
        path = state_of(request).evaluations.path(stored.id, file)
        return FileResponse(path, media_type=_MEDIA_TYPES[form], headers=headers)
    scores = state_of(request).score_views.get(stored.id).file
    if form is DownloadForm.HTML:
        content = page(scores, scores.settings(scores.scores[0]))
        return Response(content.encode(), media_type=_MEDIA_TYPES[form], headers=headers)
    pieces = (piece.encode() for piece in csv_pieces(scores))
    return StreamingResponse(pieces, media_type=_MEDIA_TYPES[form], headers=headers)


def compare_evaluations(
    request: Request,
    first_id: str,
    second_id: str,
    systems: ComparedSystems,
    *,
    search: str | None,
    limit: int,
    is_forced: bool,
    check: Callable[[], None],
) -> dict[str, object]:
    """Return the comparison of two evaluations of scores as `refaug compare --json` prints it."""
    files = list[ScoreFile]()
    for evaluation_id in (first_id, second_id):
        check()
        files.append(state_of(request).score_views.get(evaluation_id).file)
    settings = files[0].settings(files[0].scores[0])
    comparison = compare(
        files[0],
        files[1],
        ComparisonRequest(
            systems=systems.pair,
            system=systems.system,
            settings=type(settings)(
                draws=settings.draws or type(settings)().draws, confidence=settings.confidence, seed=settings.seed
            ),
            changes=ChangeFilter(
                # As text: an expression from outside may take for ever.
                grep=None if search is None else re.escape(search),
                limit=limit,
                has_references=True,
            ),
            is_forced=is_forced,
            check=check,
        ),
    )
    return comparison.as_json()


def _require_scores(request: Request, *evaluation_ids: str) -> None:
    for evaluation_id in evaluation_ids:
        stored = visible_result(request, evaluation_id)
        if stored.kind != "score":
            raise Conflict(
                f"evaluation {evaluation_id} is of kind {stored.kind}", remedy="compare two evaluations of kind score"
            )


# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class EvaluationIn(RootModel[EvaluationOrder]):
    """What to evaluate: an order of kind score or meta."""


class EvaluationRow(BaseModel):
    """An evaluation: a job of kind score or meta, and what came of it."""

    id: str = Field(description="names it, and its job")
    kind: str = Field(description="score or meta")
    name: str = Field(description="its title")
    owner: str | None = Field(description="name of the key that asked for it")
    state: JobState = Field(description="where its job is; done: the result is there")
    created: str = Field(description="when it was asked for")
    finished: str | None = Field(description="when it ended")
    expires: str | None = Field(description="when it is removed; null before it is done")
    progress: dict[str, object] | None = Field(description="where its job is")
    error: dict[str, object] | None = Field(description="why it failed")
    order: dict[str, object] | None = Field(description="what was asked for; null where its job was removed")
    files: list[str] = Field(description="the files that it is of")
    counts: dict[str, int] | None = Field(description="items, replies and bad rows; null before it is done")


class EvaluationOut(EvaluationRow, ResponseModel):
    """An evaluation, with its result where it is done."""

    summary: dict[str, object] | None = Field(
        default=None,
        description="of a score: systems, metrics with intervals, comparisons and histograms, bad rows, warnings",
    )
    agreement: dict[str, object] | None = Field(
        default=None, description="of a meta: what `refaug agreement --json` prints"
    )


class EvaluationsOut(Page, ResponseModel):
    """A page of evaluations."""

    evaluations: list[EvaluationRow] = Field(description="newest first")


class EvaluationComparisonOut(ResponseModel):
    """Two evaluations side by side, as `refaug compare --json` prints them."""

    first: str = Field(description="the first evaluation")
    second: str = Field(description="the second one")
    comparable: bool = Field(description="whether their scores may be compared")
    differences: list[dict[str, object]] = Field(description="what differs between them, and whether it matters")
    warnings: list[str] = Field(description="what to know")
    resampling: dict[str, object] = Field(description="how intervals and p are computed")
    comparisons: list[dict[str, object]] = Field(
        description="for each metric and system: tests, counts, changed replies"
    )


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["evaluations"])

_JOBS_AT_ONCE: Final = 200
_COMPARISONS: Final = Turns(2, "comparison")  # each takes a core for as long as its draws take


# ── Asking ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/evaluations", **route_options(Scope.SCORE, {202: created(EvaluationOut)}, 403, 404, 409, body=EvaluationIn)
)
async def start_evaluation(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Queue a job that scores uploaded files (`score`) or compares metrics with ratings (`meta`); keep what it finds.

    The evaluation has the id of its job. While the very same order waits, the answer is 409 and names it. A key may
    name its own uploads; `admin` may also name files in inbox/, and a cluster.
    """
    raw = await read_body(request)
    order = with_owner((await parse_body(EvaluationIn, raw)).root, key_of(request).name)

    def make() -> CreatedResource:
        state = state_of(request)
        access.require_allowed_sources(request, order)
        require_sources(state, order, must_exist=True)
        access.require_allowed_cluster(request, order)
        with access.within_limits(state, key_of(request), order):
            queued = enqueue_job(state, order, key_of(request).name)
        body = _row(state, state.jobs.get(queued.body["id"]), None)
        return CreatedResource(status=202, body=body, location=f"/v1/evaluations/{body['id']}")

    return await create_once_in_database(request, "evaluations", idempotency_key, raw, make)


@router.post("/evaluations/{id}/retry", **route_options(Scope.SCORE, {202: EvaluationOut}, 403, 404, 409))
async def retry_evaluation(request: Request, id: access.EvaluationId) -> Response:
    """Queue an evaluation again that failed or was cancelled, under its id; one in any other state is 409."""
    state = state_of(request)

    def retry() -> Mapping[str, Any]:
        job = _require_job(request, id)
        order = parse_order(job.order)
        require_sources(state, order, must_exist=True)
        with access.within_limits(state, key_of(request), order):
            again = state.jobs.retry(id, **acting(request))
        return _row(state, again, None)

    return json_response(await database_threads.run_query(retry), status=202)


@router.post("/evaluations/{id}/cancel", **route_options(Scope.SCORE, {202: EvaluationOut}, 404, 409))
async def cancel_evaluation(request: Request, id: access.EvaluationId) -> Response:
    """Cancel an evaluation that waits or runs; one that has ended stays as it is, and the answer is 409.

    One that runs may still end well before it learns of it: then it is done, and stays.
    """
    return json_response(await database_threads.run_query(partial(_cancel, request, id)), status=202)


def _cancel(request: Request, evaluation_id: str) -> Mapping[str, Any]:
    """Cancel a job that has not ended, and return its row; Conflict where it has."""
    state, job = state_of(request), _require_job(request, evaluation_id)
    if not job.state.is_ended:
        job = state.jobs.cancel(evaluation_id, **acting(request))
    if job.state.is_ended and not job.cancel_requested:
        raise Conflict(
            f"evaluation {evaluation_id} is {job.state.value}: it has ended",
            remedy=f"DELETE /v1/evaluations/{evaluation_id} removes it",
        )
    return _row(state, job, None)


@router.delete("/evaluations/{id}", **route_options(Scope.SCORE, {200: EvaluationOut, 202: EvaluationOut}, 404, 409))
async def remove_evaluation(request: Request, id: access.EvaluationId) -> Response:
    """Cancel an evaluation that waits or runs (202), or remove one that has ended, with its notes (200).

    One that ends in the same moment is not removed unseen: the answer is 409.
    """
    body, status = await database_threads.run_query(partial(_remove, request, id))
    return json_response(body, status=status)


def _remove(request: Request, evaluation_id: str) -> tuple[Mapping[str, Any], int]:
    state = state_of(request)
    job, stored = evaluation_job(request, evaluation_id), find_result(request, evaluation_id)
    if not _is_listed(request, None, job, stored):
        raise evaluation_not_found(evaluation_id)
    if job is not None and not job.state.is_ended:
        return _cancel(request, evaluation_id), 202
    ended = EndedJobs(state.database, state.home, state.serve)
    if job is not None and job.state is not JobState.DONE and not ended.remove(evaluation_id):
        raise Conflict(f"evaluation {evaluation_id} is tried again", remedy="cancel it first")
    body = _row(state, job, stored)
    state.evaluations.remove(evaluation_id)
    state.score_views.forget(evaluation_id)
    state.notes.remove_all([evaluation_id])
    try_to_add_audit_row(request, "remove", f"evaluation {evaluation_id}")
    return body, 200


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/evaluations", **route_options(Scope.SCORE, EvaluationsOut, 400, 507))
async def list_evaluations(
    request: Request,
    kind: Annotated[Literal["score", "meta"] | None, Query(description="only those of this kind")] = None,
    after: AfterRow = None,
    limit: Limit = 50,
) -> Response:
    """Evaluations that the key sees, newest first: those that are done, and those that wait, run or have failed."""
    state = state_of(request)

    def page() -> Mapping[str, Any]:
        rows = list[dict[str, object]]()
        for evaluation_id, listed_job in _newest_first(state, kind, after):
            stored = state.evaluations.find(evaluation_id)
            job = listed_job if listed_job is not None or stored is None else evaluation_job(request, evaluation_id)
            if _is_listed(request, kind, job, stored):
                rows.append(_row(state, job, stored))
            if len(rows) > limit:
                break
        return {"evaluations": rows[:limit], "next": rows[limit - 1]["id"] if len(rows) > limit else None}

    return json_response(await database_threads.run_query(page))


def _newest_first(state: ServiceState, kind: str | None, after: str | None) -> Iterator[tuple[str, Job | None]]:
    """Yield the ids of jobs and of stored evaluations, each once, with the job where it was found by it."""
    begin = after if after is not None and is_row_id(after) else None
    stored: list[tuple[str, Job | None]] = [
        (name, None) for name in state.evaluations.ids() if begin is None or name < begin
    ]
    jobs = [_jobs_of_kind(state, one, begin) for one in (EVALUATION_KINDS if kind is None else (kind,))]
    last = ""
    for evaluation_id, job in heapq.merge(*jobs, stored, key=lambda pair: pair[0], reverse=True):
        if evaluation_id != last:
            last = evaluation_id
            yield evaluation_id, job


def _jobs_of_kind(state: ServiceState, kind: str, after: str | None) -> Iterator[tuple[str, Job | None]]:
    while True:
        page, following = state.jobs.list(kind=kind, after=after, limit=_JOBS_AT_ONCE)
        yield from ((job.id, job) for job in page)
        if following is None:
            return
        after = following


def _is_listed(request: Request, kind: str | None, job: Job | None, stored: StoredEvaluation | None) -> bool:
    """Whether a list has a row: the result of a job that is done without one was removed."""
    if job is None and stored is None:
        return False
    owner = job.order.get("owner") if job is not None else stored.owner if stored is not None else None
    is_gone = job is not None and job.state is JobState.DONE and stored is None
    is_of_kind = kind is None or kind == (job.kind if job is not None else stored.kind if stored is not None else "")
    return is_of_kind and not is_gone and is_visible(key_of(request), owner)


@router.get("/evaluations/{id}", **route_options(Scope.SCORE, EvaluationOut, 404, 507))
async def get_evaluation(request: Request, id: access.EvaluationId) -> Response:
    """An evaluation: where its job is, and its summary or its agreement once it is done."""
    job, stored = await database_threads.run_query(lambda: (evaluation_job(request, id), find_result(request, id)))
    if not _is_listed(request, None, job, stored):
        raise evaluation_not_found(id)
    return await run_in_threadpool(_describe, state_of(request), job, stored)


def _describe(state: ServiceState, job: Job | None, stored: StoredEvaluation | None) -> Response:
    body = _row(state, job, stored)
    if stored is not None and body["state"] == JobState.DONE.value:
        if stored.kind == "score":
            body["summary"] = summary_json(state.score_views.get(stored.id))
        else:
            body["agreement"] = orjson.loads(state.evaluations.path(stored.id, AGREEMENT).read_bytes())
    return json_response(body)


@router.get(
    "/evaluations/{id}/download",
    response_class=Response,
    **route_options(Scope.SCORE, {200: raw("The file.", {"application/octet-stream": BINARY})}, 404, 409),
)
async def download_evaluation(
    request: Request,
    id: access.EvaluationId,
    format: Annotated[Literal["json", "csv", "latex", "html"], Query(description="which form")] = "json",
) -> Response:
    """An evaluation as a file: the JSON of the command, a table as CSV or LaTeX, or a page that needs no other file."""
    stored = await database_threads.run_query(partial(visible_result, request, id))
    return await run_in_threadpool(download, request, stored, DownloadForm(format))


@router.get("/evaluations/{id}/comparison", **route_options(Scope.SCORE, EvaluationComparisonOut, 404, 409, 422))
async def compare_two_evaluations(
    request: Request,
    id: access.EvaluationId,
    deadline: Deadline,
    second: Annotated[
        str,
        Query(
            alias="with",
            description="id of the other evaluation; the same: two systems of it",
            pattern=r"^[0-9a-z]{26}$",
        ),
    ],
    system: Annotated[str | None, Query(description="the only system to compare, in both", max_length=200)] = None,
    first_system: Annotated[str | None, Query(description="a system of the first", max_length=200)] = None,
    second_system: Annotated[str | None, Query(description="and one of the second", max_length=200)] = None,
    search: Annotated[str | None, Query(description="only replies with this text", max_length=1_000)] = None,
    limit: Annotated[int, Query(description="changed replies of each pair", ge=1, le=200)] = 20,
    anyway: Annotated[bool, Query(description="compare also what is not comparable; the answer says so")] = False,
) -> Response:
    """Two evaluations side by side: paired tests with Holm's correction, and the replies that changed most."""
    named = ComparedSystems(system=system, first=first_system, second=second_system)
    await database_threads.run_query(partial(_require_scores, request, id, second))

    def work(progress: DeadlineProgress) -> Response:
        compared = compare_evaluations(
            request, id, second, named, search=search, limit=limit, is_forced=anyway, check=progress.check
        )
        return json_response(compared)

    return await while_connected(request, _COMPARISONS.run(work, deadline))


def _require_job(request: Request, evaluation_id: str) -> Job:
    if (job := evaluation_job(request, evaluation_id)) is None:
        raise evaluation_not_found(evaluation_id)
    return job


def _row(state: ServiceState, job: Job | None, stored: StoredEvaluation | None) -> dict[str, object]:
    """Return an evaluation as a row: its job says how it is, as long as there is one."""
    if job is None:
        assert stored is not None, "a row is of a job or of a result"
        owned = {"id": stored.id, "kind": stored.kind, "name": stored.name, "owner": stored.owner}
        ended: dict[str, object] = {"state": JobState.DONE.value, "created": stored.created, "finished": stored.created}
        of_job: dict[str, object] = {"progress": None, "error": None, "order": None}
        finished: StoredEvaluation | None = stored
        files = list(stored.files)
    else:
        name, owner = str(job.order.get("name") or ""), job.order.get("owner")
        owned = {"id": job.id, "kind": job.kind, "name": name, "owner": owner}
        ended = {"state": job.state.value, "created": job.created, "finished": job.finished}
        of_job = {"progress": job.progress, "error": job.error, "order": job.order}
        finished = stored if job.state is JobState.DONE else None
        files = list(finished.files) if finished is not None else _file_names(state, job)
    expires = None if finished is None else finished.expires
    counts = None if finished is None else dict(finished.counts)
    return {**owned, **ended, "expires": expires, **of_job, "files": files, "counts": counts}


def _file_names(state: ServiceState, job: Job) -> list[str]:
    """Return the files of an order by the names that people know."""
    names = list[str]()
    order = parse_order(job.order)
    for text in sources_of(order):
        upload_id = upload_in(text)
        try:
            names.append(text if upload_id is None else state.uploads.get(upload_id).name)
        except NotFound:
            names.append(text)
    return names
