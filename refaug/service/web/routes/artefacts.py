"""Routes of artefacts: their versions, and publishing one; the same for every kind that requests name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Annotated, Any, Final, Self, get_args, get_type_hints

from fastapi import APIRouter, Depends, Request
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.artefacts.kinds import ArtefactKind
from refaug.core.artefacts.versions import VersionName
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import StoredArtefacts, VersionFacts, rules_of, stored_artefacts
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import requires
from refaug.service.web.handling.audit_rows import try_to_add_audit_row
from refaug.service.web.handling.pagination import After, Limit, page_of
from refaug.service.web.openapi import errors
from refaug.service.web.schemas.common import STRICT, Page, ResponseModel
from refaug.service.web.state import state_of

# ── Models of artefacts: their versions, the published one, and the processes that serve it; one set for all kinds ────


class PublishIn(BaseModel):
    """Which version a name is to stand for."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"version": "2026-11-20.1"}]})

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


class _ArtefactOut(_PublishedName):
    """What every kind of artefact says of itself."""

    published_at: str | None = Field(description="when the name began to stand for it")
    versions: list[str] = Field(description="all complete versions, oldest first")


@dataclass(frozen=True, kw_only=True)
class ArtefactModels:
    """The models of one kind of artefact."""

    page: type[BaseModel]  # of artefacts
    one: type[BaseModel]
    versions: type[BaseModel]  # a page of them


def models_of(kind: ArtefactKind, fact_type: type[VersionFacts]) -> ArtefactModels:
    """Return the models of a kind, whose versions have these facts."""
    noun, hints = kind.value.title().replace("-", ""), get_type_hints(fact_type, include_extras=True)
    facts = {fact.name: _documented(hints[fact.name]) for fact in fields(fact_type)}
    version: Any = _model(f"{noun}VersionOut", f"One version of {kind.noun}.", (_VersionOut,), facts)
    published = {"published": (version | None, Field(description="the published version's facts"))}
    artefact: Any = _model(
        f"{noun}Out", f"{_begun(kind.noun)} and the version that its name stands for.", (_ArtefactOut,), published
    )
    pages = {kind.folder: (list[artefact], Field(description="by name"))}
    versions = {"versions": (list[version], Field(description="oldest first"))}
    return ArtefactModels(
        page=_model(f"{kind.folder.title()}Out", f"A page of {kind.folder}.", (Page, ResponseModel), pages),
        one=_model(f"One{noun}Out", f"{_begun(kind.noun)}.", (artefact, ResponseModel), {}),
        versions=_model(
            f"{noun}VersionsOut",
            f"A page of the versions of {kind.noun}.",
            (Page, _PublishedName, ResponseModel),
            versions,
        ),
    )


def _model(name: str, text: str, bases: tuple[type[BaseModel], ...], content: Mapping[str, Any]) -> type[BaseModel]:
    return create_model(name, __base__=bases, __doc__=text, **content)


def _documented(hint: Any) -> tuple[Any, Any]:
    """Return an annotated type as pydantic takes it; the text is for all faces."""
    kind, doc = get_args(hint)
    return kind, Field(description=doc.text)


def _begun(noun: str) -> str:
    return noun[0].upper() + noun[1:]


class PublishedOut(ResponseModel):
    """What came of publishing: the name stands for the version, on the disk, in either case."""

    kind: str = Field(description="index or rater")
    name: str = Field(description="its name")
    version: str = Field(description="the version that is published now")
    serving: list[int] = Field(description="processes that answer with it, by their ids")
    lacking: list[int] = Field(description="processes that still answer with another one; none in an answer with 200")
    problems: dict[str, str] = Field(description="what could not be opened by the process that answers")


# ── Routes of artefacts: their versions, and publishing one; the same for every kind that requests name ───────────────

router = APIRouter(prefix="/v1")

ArtefactName = Annotated[str, InPath(description="its name")]
_SERVED: Final = (ArtefactKind.INDEX, ArtefactKind.RATER)  # the kinds that requests name
_POLL_S: Final = 0.05  # between two reads of which processes serve a version: well below their refresh interval
_PUBLISH_EXAMPLES: Final = {
    "a version": {"version": "2026-11-20.1"},
    "the one before": {"rollback": True},
}
_READ: Final = [Depends(requires(Scope.READ))]
_ADMIN: Final = [Depends(requires(Scope.ADMIN))]


def _add_routes(kind: ArtefactKind) -> None:
    """Add the routes of a kind; all kinds have the same ones."""
    plural, noun = kind.folder, kind.noun
    models = models_of(kind, rules_of(kind).fact_type)

    def list_artefacts(request: Request, after: After = "", limit: Limit = 50) -> Response:
        stored = stored_artefacts(state_of(request).home, kind)
        names = [name for name in stored.versions.names() if stored.versions.versions(name)]
        page, following = page_of(names, after, limit)
        return json_response({plural: [_artefact(request, stored, name) for name in page], "next": following})

    def get_artefact(request: Request, name: ArtefactName) -> Response:
        return json_response(_artefact(request, stored_artefacts(state_of(request).home, kind), name))

    def list_versions(request: Request, name: ArtefactName, after: After = "", limit: Limit = 50) -> Response:
        stored = stored_artefacts(state_of(request).home, kind)
        versions = stored.versions.require_versions(name)
        if after and VersionName.parse(after) is None:
            raise Usage(f"after: {after[:40]!r} is no version", remedy="give what `next` was on the page before")
        page, following = page_of(versions, after, limit, order=VersionName.parse)
        rows = [_row(request, stored, name, version) for version in page]
        head = {"name": name, "current": stored.versions.current(name)}
        return json_response({**head, "versions": rows, "next": following})

    async def publish(
        request: Request, name: ArtefactName, body: Annotated[PublishIn, Depends(body_of(PublishIn))]
    ) -> Response:
        return await _publish(request, kind, name, body)

    path, tags = f"/{plural}", list[str | Enum]([plural])
    router.get(
        path,
        name=f"list_{plural}",
        description=f"{plural.title()} by name, each with its versions and the facts of the published one.",
        tags=tags,
        dependencies=_READ,
        responses={200: {"model": models.page}, **errors()},
    )(list_artefacts)
    router.get(
        f"{path}/{{name}}",
        name=f"get_{kind}",
        description=f"{noun[0].upper()}{noun[1:]}, with the facts of its published version.",
        tags=tags,
        dependencies=_READ,
        responses={200: {"model": models.one}, **errors(400, 404)},
    )(get_artefact)
    router.get(
        f"{path}/{{name}}/versions",
        name=f"list_{kind}_versions",
        description=f"Versions of {noun}, oldest first.",
        tags=tags,
        dependencies=_READ,
        responses={200: {"model": models.versions}, **errors(400, 404)},
    )(list_versions)
    router.put(
        f"{path}/{{name}}/current",
        name=f"publish_{kind}",
        description=f"Let the name of {noun} stand for another version.\n\n{_PUBLISHING}",
        tags=tags,
        dependencies=_ADMIN,
        openapi_extra=request_body(PublishIn, examples=_PUBLISH_EXAMPLES),
        responses={200: {"model": PublishedOut}, 202: {"model": PublishedOut}, **errors(400, 404, 409, 413, 415, 422)},
    )(publish)


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

_PUBLISHING: Final = """\
With 200 every process answers with it; with 202 it is published as well, and those in `lacking` follow as soon as they
have opened it. A version that holds what was deleted since is refused, and so is one that a check refused, unless
`even_refused` is true.
"""


async def _publish(request: Request, kind: ArtefactKind, name: str, body: PublishIn) -> Response:
    state = state_of(request)
    version = await run_in_threadpool(_publish_version, state.home, kind, name, body)
    action = "rollback" if body.version is None else "publish"
    await run_in_threadpool(try_to_add_audit_row, request, action, f"{kind} {name}@{version}")
    return await _wait_until_served(request, kind, name, version)


def _publish_version(home: Settings, kind: ArtefactKind, name: str, body: PublishIn) -> str:
    artefacts = stored_artefacts(home, kind)
    artefacts.versions.require_versions(name)
    if body.version is None:
        return artefacts.rollback(name)
    artefacts.publish(name, body.version, even_refused=body.even_refused)
    return body.version


async def _wait_until_served(request: Request, kind: ArtefactKind, name: str, version: str) -> Response:
    """Wait until all processes serve the version or the time is over; return the processes that serve it."""
    state = state_of(request)
    until = time.monotonic() + state.serve.publish_wait_s
    while True:
        serving, lacking = await run_in_threadpool(state.processes.pids_with_and_without, kind, name, version)
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


for _kind in _SERVED:
    _add_routes(_kind)
