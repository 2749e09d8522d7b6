"""Routes of artefacts of every kind: their versions, and publishing one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import fields
from enum import Enum
from functools import partial
from typing import Annotated, Any, Final, Self, get_args, get_type_hints

from fastapi import APIRouter, Depends, Request
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.artefacts.kinds import ArtefactKind, find_kind
from refaug.core.artefacts.versions import VersionName
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import StoredArtefacts, rules_of, stored_artefacts
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import After, Limit, page_of, try_to_add_audit_row
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import route_options
from refaug.service.web.schemas.common import Page, ResponseModel, StrictModel
from refaug.service.web.state import ServiceState, state_of

SERVED: Final = (ArtefactKind.INDEX, ArtefactKind.RATER)  # the kinds that requests name

# ── Models of artefacts: their versions, the published one, and the processes that serve it; one set for all kinds ────


class PublishIn(StrictModel):
    """Which version a name is to stand for."""

    version: str | None = Field(
        default=None, description="the version to publish, such as `2026-11-20.1`", min_length=1, max_length=100
    )
    rollback: bool = Field(default=False, description="publish the version that was published before again")
    even_refused: bool = Field(default=False, description="publish `version` although a check refused it")

    @model_validator(mode="after")
    def require_one(self) -> Self:
        """One of the two says which version is meant."""
        if (self.version is None) == (not self.rollback):
            raise ValueError('give either "version", or "rollback": true')
        if self.even_refused and self.version is None:
            raise ValueError('"even_refused" is about a version: name it in "version"')
        return self


class _VersionOut(BaseModel):
    """What every kind of version says of itself."""

    model_config = ConfigDict(extra="allow")  # the facts of kinds that are not served

    version: str = Field(description="the version's name: the day it was made, and its number of that day")
    published: bool = Field(description="whether the name stands for it now")
    was_published: bool | None = Field(
        description="whether the name has ever stood for it: rolling back returns to the newest such version that is "
        "older; null where the record of this is damaged"
    )
    refused: str | None = Field(description="why a check refused it; null where none did, or it was published since")
    problem: str | None = Field(description="what is wrong with its files; then all else about its content is null")


class _PublishedName(BaseModel):
    """A name and the version that it stands for."""

    name: str = Field(description="its name")
    current: str | None = Field(description="the published version")


def _fact_fields() -> dict[str, Any]:
    """Return the facts of the kinds that are served, as pydantic takes them; the texts are for all faces."""
    fields_of = dict[str, Any]()
    for fact_type in (rules_of(kind).fact_type for kind in SERVED):
        hints = get_type_hints(fact_type, include_extras=True)
        for fact in fields(fact_type):
            hint, doc = get_args(hints[fact.name])
            fields_of.setdefault(fact.name, (hint, Field(default=None, description=doc.text)))
    return fields_of


VersionOut: Any = create_model(
    "ArtefactVersionOut",
    __base__=_VersionOut,
    __doc__="One version, with the facts of its kind; those that its kind does not have are left out.",
    **_fact_fields(),
)


class ArtefactOut(_PublishedName):
    """An artefact, and the version that its name stands for."""

    published_at: str | None = Field(description="when the name began to stand for it")
    versions: list[str] = Field(description="all complete versions, oldest first")
    published: VersionOut | None = Field(description="the published version's facts")


class OneArtefactOut(ArtefactOut, ResponseModel):
    """An artefact."""


class ArtefactsOut(Page, ResponseModel):
    """A page of artefacts of one kind."""

    artefacts: list[ArtefactOut] = Field(description="by name")


class ArtefactVersionsOut(Page, _PublishedName, ResponseModel):
    """A page of the versions of an artefact."""

    versions: list[VersionOut] = Field(description="oldest first")


class PublishedOut(ResponseModel):
    """What came of publishing: the name stands for the version, on the disk, in either case."""

    kind: str = Field(description="its kind")
    name: str = Field(description="its name")
    version: str = Field(description="the version that is published now")
    serving: list[int] = Field(description="processes that answer with it, by their ids")
    lacking: list[int] = Field(description="processes that still answer with another one; none in an answer with 200")
    problems: dict[str, str] = Field(description="what could not be opened by the process that answers")


# ── Routes: an artefact, its versions, and publishing one ─────────────────────────────────────────────────────────────

router = APIRouter(prefix="/v1")

ArtefactName = Annotated[str, InPath(description="its name")]
ArtefactKindName = Annotated[str, InPath(description=f"its kind: {', '.join(ArtefactKind)}")]
_POLL_S: Final = 0.05  # between two reads of which processes serve a version: well below their refresh interval
_TAGS: Final[list[str | Enum]] = ["artefacts"]


@router.get("/artefacts/{kind}", tags=_TAGS, **route_options(Scope.READ, ArtefactsOut, 400))
def list_artefacts(request: Request, kind: ArtefactKindName, after: After = "", limit: Limit = 50) -> Response:
    """Artefacts of a kind by name, each with its versions and the facts of the published one."""
    stored = stored_artefacts(state_of(request).home, kind)
    names = [name for name in stored.versions.names() if stored.versions.versions(name)]
    page, following = page_of(names, after, limit)
    return json_response({"artefacts": [_artefact(request, stored, name) for name in page], "next": following})


@router.get("/artefacts/{kind}/{name}", tags=_TAGS, **route_options(Scope.READ, OneArtefactOut, 400, 404))
def get_artefact(request: Request, kind: ArtefactKindName, name: ArtefactName) -> Response:
    """An artefact, with the facts of its published version."""
    return json_response(_artefact(request, stored_artefacts(state_of(request).home, kind), name))


@router.get("/artefacts/{kind}/{name}/versions", tags=_TAGS, **route_options(Scope.READ, ArtefactVersionsOut, 400, 404))
def list_artefact_versions(
    request: Request, kind: ArtefactKindName, name: ArtefactName, after: After = "", limit: Limit = 50
) -> Response:
    """Versions of an artefact, oldest first."""
    stored = stored_artefacts(state_of(request).home, kind)
    versions = stored.versions.require_versions(name)
    if after and VersionName.parse(after) is None:
        raise Usage(f"after: {after[:40]!r} is not a version", remedy="give what `next` was on the page before")
    page, following = page_of(versions, after, limit, order=VersionName.parse)
    rows = [_row(request, stored, name, version) for version in page]
    head = {"name": name, "current": stored.versions.current(name)}
    return json_response({**head, "versions": rows, "next": following})


def _artefact(request: Request, stored: StoredArtefacts, name: str) -> dict[str, object]:
    """Return an artefact with the facts of its published version."""
    artefacts = stored.versions
    versions, current = artefacts.require_versions(name), artefacts.current(name)
    published_at = artefacts.published_at(name)
    return {
        "name": name,
        "current": current,
        "published_at": None if published_at is None else published_at.isoformat(timespec="seconds"),
        "versions": versions,
        "published": _row(request, stored, name, current) if current in versions else None,
    }


def _row(request: Request, stored: StoredArtefacts, name: str, version: str) -> dict[str, object]:
    """Return a version as a row; the problem of a damaged one names no path."""
    row = stored.row(name, version)
    return row if row["problem"] is None else {**row, "problem": state_of(request).without_paths(row["problem"])}


# ── Publishing ────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.put(
    "/artefacts/{kind}/{name}/current",
    tags=_TAGS,
    **route_options(Scope.ADMIN, {200: PublishedOut, 202: PublishedOut}, 400, 404, 409, 413, 415, 422, body=PublishIn),
)
async def publish_artefact(
    request: Request,
    kind: ArtefactKindName,
    name: ArtefactName,
    body: Annotated[PublishIn, Depends(body_of(PublishIn))],
) -> Response:
    """Let the name of an artefact stand for another version.

    With 200 every process answers with it; with 202 it is published as well, and those in `lacking` follow as soon as
    they have opened it. A version that holds what was deleted since is refused, and so is one that a check refused,
    unless `even_refused` is true.
    """
    state = state_of(request)
    found = find_kind(kind)
    version = await run_in_threadpool(_publish_version, state.home, found, name, body)
    action = "rollback" if body.version is None else "publish"
    await database_threads.poll_query(partial(try_to_add_audit_row, request, action, f"{found} {name}@{version}"))
    return await _wait_until_served(request, found, name, version)


def _publish_version(home: Settings, kind: ArtefactKind, name: str, body: PublishIn) -> str:
    artefacts = stored_artefacts(home, kind)
    artefacts.versions.require_versions(name)
    if body.version is None:
        return artefacts.rollback(name)
    artefacts.publish(name, body.version, even_refused=body.even_refused)
    return body.version


def _pids(state: ServiceState, kind: ArtefactKind, name: str, version: str) -> tuple[list[int], list[int]]:
    """Return the processes that serve a version and those that do not yet; only indexes and raters are served."""
    return state.processes.pids_with_and_without(kind, name, version) if kind in SERVED else ([], [])


async def _wait_until_served(request: Request, kind: ArtefactKind, name: str, version: str) -> Response:
    """Wait until all processes serve the version or the time is over; return the processes that serve it."""
    state = state_of(request)
    until = time.monotonic() + state.serve.publish_wait_s
    while True:
        serving, lacking = await run_in_threadpool(_pids, state, kind, name, version)
        if not lacking or time.monotonic() >= until:
            break
        await asyncio.sleep(_POLL_S)
    content = {
        "kind": kind,
        "name": name,
        "version": version,
        "serving": serving,
        "lacking": lacking,
        "problems": {what: state.without_paths(why) for what, why in state.open_versions.problems().items()},
    }
    return json_response(content, status=202 if lacking else 200)
