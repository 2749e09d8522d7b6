"""Routes of frozen reference sets: freezing, reading, deriving, withdrawing, and scoring against them."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request
from fastapi import Path as InPath
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response, StreamingResponse

from refaug.core.errors import RefaugError, TooLarge, Withdrawn
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.metrics.costs import lengths_of_replies
from refaug.scoring.held_sets.held_set import HeldSet
from refaug.scoring.held_sets.set_scoring import SetRequest, UnknownItems, answer_request, problem_json
from refaug.scoring.metric_setup.metric_requests import (
    MetricRequest,
    default_metric_of,
    refuse_judge,
    require_models,
)
from refaug.scoring.reference_sets.derivation import Derivation, PeopleWeights
from refaug.scoring.reference_sets.reference_set import Purpose, ReferenceSet
from refaug.scoring.reference_sets.set_scores import BIN_EDGES, SetEvidence, evidence
from refaug.scoring.reference_sets.set_store import FreezeResult, ReferenceSets
from refaug.service import prometheus_figures
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.batches.queued_requests import UNITS_PER_ITEM
from refaug.service.web import scoring_limits
from refaug.service.web.answers import json_response, large_json_response
from refaug.service.web.connection.body import body_of, parse_body, read_body
from refaug.service.web.dependencies import (
    After,
    Deadline,
    Limit,
    count_items,
    key_of,
    try_to_add_audit_row,
    while_connected,
)
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.degradation import require_room
from refaug.service.web.handling.job_queueing import IdempotencyKey, create_once
from refaug.service.web.handling.request_lease import DeadlineProgress
from refaug.service.web.handling.set_freezing import SetFreezing, frozen_set_resource
from refaug.service.web.handling.turns import Turns
from refaug.service.web.openapi import BINARY, ETAG_HEADER, TEXT, created, raw, route_options
from refaug.service.web.problems import BadRequest, Details
from refaug.service.web.schemas.jobs import OneJobOut
from refaug.service.web.schemas.sets import (
    DeriveIn,
    FrozenOut,
    OneSetOut,
    SetIn,
    SetScoresIn,
    SetScoresOut,
    SetsOut,
    WithdrawnOut,
)
from refaug.service.web.state import ServiceState, state_of

# ── The work of POST /v1/reference-sets/{id}/scores: the request checked against the limits, and its scoring ──────────

_MAX_REPLIES_INLINE: Final = 500
_DRAWN_ROWS_PER_ITEM: Final = 50_000  # rows that a bootstrap over the items of a set can add up in an item's time


class SetScoring:
    """A request to score against a set."""

    def __init__(self, body: SetScoresIn, home: Settings, serve: ServeSettings) -> None:
        self.body, self.options, self._home, self._serve = body, body.options, home, serve
        self.request = SetRequest(items=body.items, replies=body.replies)
        self.replies = sum(map(len, body.replies.values()))  # of all systems
        self.metrics: Sequence[str] = ()
        self.asks_model = False  # which may have to be opened first, and takes long

    def check(self) -> None:
        """Check the request: TooLarge beyond a limit, Usage where a field has no effect."""
        options, serve = self.options, self._serve
        self.metrics = scoring_limits.require_few_metrics(options.metrics, self._home, serve, texts="replies")
        wants = [MetricRequest.of(text, self._home) for text in self.metrics]
        require_models(wants, rater=None, index=None)
        if not serve.judge_hosts:
            refuse_judge(wants)
        scoring_limits.require_few_draws(options, serve)
        self.asks_model = any(model.parameter.is_asked for want in wants for model in want.models)
        scoring_limits.require_returned(options, self.body.return_)
        self._require_within(serve)
        questions = scoring_limits.questions_a_reply(wants)
        scoring_limits.require_few_judged(wants, questions, self.replies, serve)

    def _require_within(self, serve: ServeSettings) -> None:
        """Raise for too many replies, or too long ones."""
        if self.replies > serve.replies:
            raise TooLarge(
                f"{self.replies:,} replies are more than the {serve.replies:,} that one request may have",
                remedy="send them in several requests",
            )
        long = [
            {
                "item": None,
                "place": place,
                "field": f"replies.{system}[{place}]",
                "message": f"{len(text):,} characters are more than the {serve.text_chars:,} of one text",
            }
            for system, texts in self.body.replies.items()
            for place, text in enumerate(texts)
            if text is not None and len(text) > serve.text_chars
        ]
        if long:
            raise BadRequest(f"{long[0]['field']}: {long[0]['message']}", errors=long, remedy="send shorter texts")

    @property
    def is_quick_to_measure(self) -> bool:
        """Whether measuring the texts takes less time than handing them to a thread."""
        return self.replies <= _MAX_REPLIES_INLINE and not scoring_limits.counts_words(self.metrics)

    def cost(self, held: HeldSet) -> int:
        """Return the number of queue items that the work is worth; TooLarge for more than one request may be."""
        units = self._units(held)
        scoring_limits.require_units(units, self._serve)
        drawn = self.replies * len(units) * self.options.draws / _DRAWN_ROWS_PER_ITEM
        worth = sum(units.values()) / UNITS_PER_ITEM + drawn
        return max(1, min(math.ceil(worth), self._serve.queue_items))

    def _units(self, held: HeldSet) -> Mapping[str, float]:
        """Return the units of work of each metric, by the lengths of the replies and of the set's references."""
        metrics = self.metrics or (default_metric_of(held.facts.sources),)
        replies = [text or "" for texts in self.body.replies.values() for text in texts]
        of_replies = self.request.places_in(held)  # the place of an unknown item, −1, stands for any item
        if len(of_replies) != len(replies):
            of_replies = np.resize(of_replies, len(replies))  # lists of other lengths than the ids are refused later
        return scoring_limits.scoring_units(
            metrics,
            lengths_of_replies(replies, counts_words=scoring_limits.counts_words(metrics)),
            held.facts.lengths[:, of_replies],
            explains=self.options.explain,
        )

    def run(self, held: HeldSet, progress: Progress) -> Mapping[str, Any]:
        """Return the response without its request id."""
        body, options = self.body, self.options
        try:
            return answer_request(
                held,
                self.request,
                self.metrics,
                options,
                returned=body.return_,
                language=options.language,
                on_error=body.on_error,
                progress=progress,
            )
        except UnknownItems as error:
            places = [problem_json({"id": one.item, "field": one.field, "message": one.message}) for one in error.bad]
            raise BadRequest(error.message, errors=places, remedy=error.remedy) from None


router = APIRouter(prefix="/v1", tags=["reference-sets"])

_SEAL_SHA256: Final = 32  # bytes at the end of a set's file
_DERIVATIONS: Final = Turns(1, "derivation")
_LINES: Final = 100  # items in one piece of a download: each piece is read in a thread
_ZSTD: Final = "application/zstd"
_JSONL: Final = "application/x-ndjson"
_MAX_DIGITS: Final = 18  # of a position in a file
_RANGES: Final = re.compile(r"bytes=\s*(\d*-\d*(?:\s*,\s*\d*-\d*)*)\s*")
_FROZEN: Final = {201: created(FrozenOut), 200: created(FrozenOut, "The same set was there already.")}
_JOB: Final = created(OneJobOut, "There are many items: a job freezes them.")
_WHOLE: Final = raw("The file, or its lines: the manifest, then the items.", {_ZSTD: BINARY, _JSONL: TEXT})
_FILE: Final = {
    200: {**_WHOLE, "headers": ETAG_HEADER},
    206: {"headers": ETAG_HEADER, "description": "The part that was asked for."},
    304: {"headers": ETAG_HEADER, "description": "It is what `If-None-Match` says."},
}
SetId = Annotated[str, InPath(description="id of the set, or at least the first 6 characters of it", max_length=100)]


def _sets(state: ServiceState) -> ReferenceSets:
    return ReferenceSets(state.home.reference_sets)


# ── Scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post("/reference-sets/{id}/scores", **route_options(Scope.SCORE, SetScoresOut, 404, 410, 501, body=SetScoresIn))
async def score_against_set(request: Request, id: SetId, deadline: Deadline) -> Response:
    """Score replies against a frozen set; neither index nor rater is needed, and the scores are the same for ever.

    Several replies to an item are several rows: the corpus score is over all of them, and intervals resample items.
    """
    state = state_of(request)
    body = await parse_body(SetScoresIn, await read_body(request))
    work = SetScoring(body, state.home, state.serve)
    if any(":" in text for text in body.options.metrics):  # it may name a file or a model, which is looked at
        await run_in_threadpool(work.check)
    else:
        work.check()
    count_items(request, work.replies)
    try:
        held = state.sets.get_held(id)
        if held is None:
            held = await run_in_threadpool(state.sets.get, id)
    except Withdrawn as error:
        raise await run_in_threadpool(_gone_error, state, id, error) from None
    progress = DeadlineProgress(deadline)
    measure = partial(work.cost, held)
    cost = measure() if work.is_quick_to_measure else await run_in_threadpool(measure)
    with progress.given_up_on_error():
        scoring = state.batcher.run(
            partial(work.run, held, progress), items=cost, deadline=deadline, is_long=work.asks_model
        )
        scores = await while_connected(request, scoring)
    for metric_scores in scores["scores"] if body.return_ != "stats" else ():
        for system in metric_scores["systems"].values():
            prometheus_figures.unscored(system["unscored_by_reason"])
    return await large_json_response(lambda: scores, items=work.replies)


# ── Making ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/reference-sets",
    **route_options(Scope.WRITE, {**_FROZEN, 202: _JOB}, 404, 409, 410, 413, 422, 503, 507, body=SetIn),
)
async def freeze_set(request: Request, deadline: Deadline, idempotency_key: IdempotencyKey = None) -> Response:
    """Freeze items with their weighted references, so that scores against them never change their meaning.

    What a set is called follows from its content: the same items frozen again, here or by the command, are the same
    set. More items than the server freezes at once become a job, whose result names the set. With an
    `Idempotency-Key`, the same request again gets the first one's answer.
    """
    raw = await read_body(request)
    body = await parse_body(SetIn, raw)
    count_items(request, len(body.items))
    await run_in_threadpool(require_room, state_of(request))

    freezing = SetFreezing(state_of(request), body, deadline, key_of(request).name)
    created = create_once(request, "reference-sets", idempotency_key, raw, freezing.resource)
    return await while_connected(request, created)


@router.post(
    "/reference-sets/{id}/derive",
    **route_options(Scope.WRITE, _FROZEN, 400, 404, 410, 422, 507, body=DeriveIn),
)
async def derive_set(
    request: Request, id: SetId, change: Annotated[DeriveIn, Depends(body_of(DeriveIn))], deadline: Deadline
) -> Response:
    """Make a set of other weights out of what another one has stored, or people have said, without index or rater."""
    state = state_of(request)
    await run_in_threadpool(require_room, state)

    def derive(progress: DeadlineProgress) -> FreezeResult:
        people = None
        if change.people is not None:
            people = PeopleWeights.of((f"people[{place}]", dict(row)) for place, row in enumerate(change.people))
        return _sets(state).derive(id, Derivation(**change.model_dump(exclude={"people"}), people=people), progress)

    try:
        frozen = await while_connected(request, _DERIVATIONS.run(derive, deadline))
    except Withdrawn as error:
        raise await run_in_threadpool(_gone_error, state, id, error) from None
    return frozen_set_resource(frozen).response(request)


# ── Looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/reference-sets", **route_options(Scope.READ, SetsOut))
def list_sets(
    request: Request,
    purpose: Annotated[Purpose | None, Query(description="only sets for this")] = None,
    after: After = "",
    limit: Limit = 50,
) -> Response:
    """Sets by id, withdrawn ones too."""
    state = state_of(request)
    ids = _sets(state).ids()
    listed = (_set_row(state, name) for name in ids[bisect_right(ids, after) :])
    matching = (row for row in listed if purpose is None or row["purpose"] == purpose.value)
    page = [row for row, _ in zip(matching, range(limit + 1), strict=False)]
    following = page[limit - 1]["id"] if len(page) > limit else None
    return json_response({"sets": page[:limit], "next": following})


def _set_row(state: ServiceState, name: str) -> dict[str, object]:
    """Return a set as a row; a damaged set gets a row, too, so that the list stays complete."""
    try:
        withdrawn = _sets(state).withdrawal(name)
        manifest = _sets(state).open(name, even_withdrawn=True).manifest
    except RefaugError as error:
        empty = dict.fromkeys(("purpose", "items", "references", "created", "parent", "withdrawn"))
        return {"id": name, "problem": state.without_paths(error.message), **empty}
    return {
        "id": name,
        "problem": None,
        "purpose": manifest.purpose.value,
        "items": manifest.items,
        "references": manifest.references,
        "created": manifest.created,
        "parent": manifest.parent,
        "withdrawn": asdict(withdrawn) if withdrawn else None,
    }


@router.get("/reference-sets/{id}", **route_options(Scope.READ, OneSetOut, 400, 404))
def get_set(request: Request, id: SetId) -> Response:
    """How a set was made, and on what scores against it stand; of a withdrawn one too."""
    sets = _sets(state_of(request))
    stored = sets.open(id, even_withdrawn=True)
    withdrawn, set_evidence = sets.withdrawal(stored.id), _evidence(stored.path, stored.manifest.content)
    edges = [-1.0, *BIN_EDGES, 1.0]
    bins = zip(edges[:-1], edges[1:], set_evidence.weights, strict=True)
    body = {
        **stored.manifest.as_json(),
        "withdrawn": asdict(withdrawn) if withdrawn else None,
        "evidence": {
            "sources": dict(set_evidence.sources),
            "thin": set_evidence.thin,
            "weights": [{"from": low, "to": high, "references": count} for low, high, count in bins],
        },
    }
    return json_response(body)


@lru_cache(maxsize=256)
def _evidence(path: Path, content: str) -> SetEvidence:  # noqa: ARG001  the content is the cache key
    """Return the evidence of a set, computed from all its items; cached, since a set never changes."""
    return evidence(ReferenceSet.at(path))


@router.get(
    "/reference-sets/{id}/download",
    response_class=FileResponse,
    **route_options(Scope.READ, _FILE, 400, 404, 410, 416),
)
async def download_set(
    request: Request,
    id: SetId,
    format: Annotated[
        Literal["zst", "jsonl"], Query(description="zst: the file as it lies there; jsonl: its lines, not packed")
    ] = "zst",
    if_none_match: Annotated[str | None, Header(description="ETags of what is there already")] = None,
) -> Response:
    """A set as a file, for another home or another group: `refaug sets` reads it where it lies."""
    state = state_of(request)
    try:
        stored = await run_in_threadpool(_sets(state).open, id)
    except Withdrawn as error:
        raise await run_in_threadpool(_gone_error, state, id, error) from None
    await run_in_threadpool(stored.require_sealed)
    digest, size = await run_in_threadpool(_read_seal, stored.path)
    headers = {"ETag": f'"{digest}"' if format == "zst" else f'"{digest}-jsonl"'}
    if if_none_match is not None and _matches_tag(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    name = f"{stored.id}.jsonl"
    if format == "jsonl":
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return StreamingResponse(_download_pieces(stored), media_type=_JSONL, headers=headers)
    _settle_range(request, size)
    # Declared as not encoded, so that no layer on the way compresses it again.
    headers["Content-Encoding"] = "identity"
    return FileResponse(stored.path, media_type=_ZSTD, filename=f"{name}.zst", headers=headers)


def _read_seal(path: Path) -> tuple[str, int]:
    """Return the SHA-256 that seals a set's file and names its bytes, and the size of the file."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _SEAL_SHA256))
        return file.read().hex(), size


def _matches_tag(header: str, tag: str) -> bool:
    """Return whether a header contains this tag; `*` matches every tag."""
    named = {one.strip().removeprefix("W/") for one in header.split(",")}
    return bool(named & {tag, "*"})


def _settle_range(request: Request, size: int) -> None:
    """Refuse a range outside the file; ignore a range header that cannot be read, as HTTP demands."""
    header = request.headers.get("range")
    if header is None:
        return
    match = _RANGES.fullmatch(header)
    parts = [part.strip().partition("-") for part in match[1].split(",")] if match else []
    readable = [(first, last) for first, _, last in parts if first or last]
    if not readable or len(readable) < len(parts) or any(a and b and _position(a) > _position(b) for a, b in readable):
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"range"]
        request.scope["headers"] = headers
        return
    if any((_position(first) >= size) if first else _position(last) == 0 for first, last in readable):
        raise HTTPException(416, detail=f"the file has {size:,} bytes", headers={"Content-Range": f"bytes */{size}"})
    ranges = ",".join(f"{first and _position(first)}-{last and _position(last)}" for first, last in readable)
    fields = request.scope["headers"]
    request.scope["headers"] = [
        (b"range", b"bytes=" + ranges.encode()) if name == b"range" else (name, content) for name, content in fields
    ]


def _position(digits: str) -> int:
    """Return the number of a range, or a number beyond every file."""
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


def _download_pieces(stored: ReferenceSet) -> Iterator[bytes]:
    """Yield the manifest and the items, several lines at a time; stop where the file is damaged."""
    piece = [orjson.dumps(stored.manifest.as_json())]
    for line in stored.lines():
        piece.append(line)
        if len(piece) >= _LINES:
            yield b"\n".join([*piece, b""])
            piece = []
    if piece:
        yield b"\n".join([*piece, b""])


# ── Withdrawing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@router.delete("/reference-sets/{id}", **route_options(Scope.ADMIN, WithdrawnOut, 400, 404, 409, 410))
async def withdraw_set(
    request: Request,
    id: SetId,
    reason: Annotated[
        str, Query(description="why; shown to everyone who uses the set", min_length=1, max_length=2_000)
    ],
    instead: Annotated[str | None, Query(description="the set to use instead", max_length=100)] = None,
) -> Response:
    """End the use of a set: from now on scores and downloads are 410, and say which set to use instead.

    Its file stays as it is. The same again changes nothing; another reason for the same set is 409.
    """
    sets = _sets(state_of(request))
    name, withdrawn = await run_in_threadpool(lambda: (sets.resolve(id), sets.withdraw(id, reason, instead)))
    await database_threads.poll_query(partial(try_to_add_audit_row, request, "withdraw", f"set {name}"))
    return json_response({"id": name, **asdict(withdrawn)})


class SetGone(Withdrawn, Details):
    """A reference set whose use has ended."""

    def __init__(self, error: Withdrawn, instead: str | None) -> None:
        super().__init__(error.message, remedy=error.remedy)
        self.details = {"instead": instead}  # for programs, which do not parse the remedy


def _gone_error(state: ServiceState, name: str, error: Withdrawn) -> SetGone:
    """Return the error of a withdrawn set, with the set to use instead."""
    withdrawn = _sets(state).withdrawal(_sets(state).resolve(name))
    return SetGone(error, withdrawn.instead if withdrawn is not None else None)
