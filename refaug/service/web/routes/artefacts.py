"""Routes of indexes and raters: their versions, and publishing one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Request
from fastapi import Path as InPath
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import VersionName, Versions
from refaug.core.errors import Corrupt, NotFound, RefaugError, Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.evaluation.home.stored_artefacts import stored_artefacts
from refaug.indexer.manifest import MANIFEST, IndexManifest
from refaug.rater.stored_raters import network_of, read_rater_manifest
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import requires
from refaug.service.web.handling.audit_rows import try_to_add_audit_row
from refaug.service.web.handling.pagination import After, Limit, page_of
from refaug.service.web.openapi import errors
from refaug.service.web.schemas.artefacts import (
    IndexesOut,
    IndexVersionOut,
    IndexVersionsOut,
    OneIndexOut,
    OneRaterOut,
    PublishedOut,
    PublishIn,
    RatersOut,
    RaterVersionOut,
    RaterVersionsOut,
)
from refaug.service.web.state import ServiceState, state_of

router = APIRouter(prefix="/v1")

Kind = Literal["index", "rater"]
IndexName = Annotated[str, InPath(description="name of the index")]
RaterName = Annotated[str, InPath(description="name of the rater")]
_POLL_S: Final = 0.05  # between two reads of which processes serve a version: well below their refresh interval
_PUBLISH_EXAMPLES: Final = {
    "a version": {"version": "2026-11-20.1"},
    "the one before": {"rollback": True},
}
_READ: Final = [Depends(requires(Scope.READ))]
_ADMIN: Final = [Depends(requires(Scope.ADMIN))]


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/indexes", tags=["indexes"], dependencies=_READ, responses={200: {"model": IndexesOut}, **errors()})
def list_indexes(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Indexes by name, each with its versions and what is known of the published one."""
    state = state_of(request)
    names, following = page_of(_names(state, "index"), after, limit)
    return json_response({"indexes": [_artefact(state, "index", name) for name in names], "next": following})


@router.get(
    "/indexes/{name}", tags=["indexes"], dependencies=_READ, responses={200: {"model": OneIndexOut}, **errors(400, 404)}
)
def get_index(request: Request, name: IndexName) -> Response:
    """One index."""
    return json_response(_artefact(state_of(request), "index", name))


@router.get(
    "/indexes/{name}/versions",
    tags=["indexes"],
    dependencies=_READ,
    responses={200: {"model": IndexVersionsOut}, **errors(400, 404)},
)
def list_index_versions(request: Request, name: IndexName, after: After = "", limit: Limit = 50) -> Response:
    """Versions of an index, oldest first."""
    return json_response(_versions(state_of(request), "index", name, after, limit))


@router.get("/raters", tags=["raters"], dependencies=_READ, responses={200: {"model": RatersOut}, **errors()})
def list_raters(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Raters by name, each with its versions and what is known of the published one."""
    state = state_of(request)
    names, following = page_of(_names(state, "rater"), after, limit)
    return json_response({"raters": [_artefact(state, "rater", name) for name in names], "next": following})


@router.get(
    "/raters/{name}", tags=["raters"], dependencies=_READ, responses={200: {"model": OneRaterOut}, **errors(400, 404)}
)
def get_rater(request: Request, name: RaterName) -> Response:
    """One rater."""
    return json_response(_artefact(state_of(request), "rater", name))


@router.get(
    "/raters/{name}/versions",
    tags=["raters"],
    dependencies=_READ,
    responses={200: {"model": RaterVersionsOut}, **errors(400, 404)},
)
def list_rater_versions(request: Request, name: RaterName, after: After = "", limit: Limit = 50) -> Response:
    """Versions of a rater, oldest first."""
    return json_response(_versions(state_of(request), "rater", name, after, limit))


def _artefact(state: ServiceState, kind: Kind, name: str) -> dict[str, object]:
    """Return an artefact with the facts of its published version."""
    artefacts = artefact_stores(state.home)[kind]
    versions, current = _require_versions(artefacts, name), artefacts.current(name)
    published = _facts(state, kind, artefacts, name, current, current) if current in versions else None
    published_at = artefacts.published_at(name)
    return {
        "name": name,
        "current": current,
        "published_at": None if published_at is None else published_at.isoformat(timespec="seconds"),
        "versions": versions,
        "published": published,
    }


def _names(state: ServiceState, kind: Kind) -> list[str]:
    """Return the names that have a finished version."""
    artefacts = artefact_stores(state.home)[kind]
    return [name for name in artefacts.names() if artefacts.versions(name)]


def _versions(state: ServiceState, kind: Kind, name: str, after: str, limit: int) -> dict[str, object]:
    artefacts = artefact_stores(state.home)[kind]
    versions, current = _require_versions(artefacts, name), artefacts.current(name)
    if after and VersionName.parse(after) is None:
        raise Usage(f"after: {after[:40]!r} is no version", remedy="give what `next` was on the page before")
    page, following = page_of(versions, after, limit, order=VersionName.parse)
    facts = [_facts(state, kind, artefacts, name, version, current) for version in page]
    return {"name": name, "current": current, "versions": facts, "next": following}


def _require_versions(artefacts: Versions, name: str) -> list[str]:
    """Return the versions of an artefact; raise NotFound if there are none."""
    versions = artefacts.versions(name)
    if not versions:
        names = ", ".join(artefacts.names()) or "none yet"
        raise NotFound(f"there is no {artefacts.kind} {name}", remedy=f"there are: {names}")
    return versions


def _facts(
    state: ServiceState, kind: Kind, artefacts: Versions, name: str, version: str | None, current: str | None
) -> dict[str, object]:
    """Return a version as a row; a damaged version gets a row, too, so that the list stays complete."""
    assert version is not None
    row: dict[str, object] = {"version": version, "published": version == current}
    row |= _publication(artefacts, name, version)
    try:
        facts, problem = _READ_FACTS[kind](artefacts.folder(name, version)), None
    except RefaugError as error:
        facts, problem = dict.fromkeys(_FACT_NAMES[kind]), state.without_paths(error.message)
    except FileNotFoundError:  # removed after it was listed
        facts, problem = dict.fromkeys(_FACT_NAMES[kind]), "it was removed in this moment"
    return {**row, "problem": problem, **facts}


def _publication(artefacts: Versions, name: str, version: str) -> dict[str, object]:
    """Return whether a version was ever published, and why a check refused it."""
    try:
        publications = artefacts.publications(name)
    except Corrupt:  # publishing mends the record
        return {"was_published": None, "refused": None}
    return {"was_published": version in publications.published, "refused": publications.refused.get(version)}


def _index_facts(folder: Path) -> dict[str, object]:
    manifest = IndexManifest.read(folder)
    check = manifest.check
    return {
        "id": manifest.id[:12],
        "logs": [log.name for log in manifest.logs],
        "bytes": _bytes(manifest.files),
        "created": manifest.created,
        "vectors": manifest.vectors.name,
        "tokenizer": manifest.tokenizer,
        "kind": manifest.segments[0].factory,
        "utterances": manifest.utterances,
        "pairs": manifest.pairs,
        "segments": len(manifest.segments),
        "superseded": sum(segment.superseded for segment in manifest.segments),
        "recall_at_15": None if check is None else check.recall,
        "recall_interval": None if check is None else [check.low, check.high],
        "recall_target": None if check is None else check.target,
    }


def _rater_facts(folder: Path) -> dict[str, object]:
    manifest = read_rater_manifest(folder)
    files: Any = read_json(folder / MANIFEST).get("files", {})
    return {
        "id": manifest.id[:12],
        "logs": list(manifest.details.get("logs", [])),
        "bytes": _bytes(files),
        "created": manifest.details.get("at"),
        "tokenizer": manifest.tokenizer,
        "languages": list(manifest.languages),
        "network": network_of(folder),
        "temperature": manifest.temperature,
        "embedding": manifest.config.embedding,
        "hidden": manifest.config.hidden,
    }


def _bytes(files: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(facts["size"] for facts in files.values())


_READ_FACTS: Final[Mapping[str, Callable[[Path], dict[str, object]]]] = {"index": _index_facts, "rater": _rater_facts}
_FACT_NAMES: Final = {
    kind: [
        name
        for name in model.model_fields
        if name not in ("version", "published", "was_published", "refused", "problem")
    ]
    for kind, model in (("index", IndexVersionOut), ("rater", RaterVersionOut))
}


# ── publishing ────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.put(
    "/indexes/{name}/current",
    tags=["indexes"],
    dependencies=_ADMIN,
    openapi_extra=request_body(PublishIn, examples=_PUBLISH_EXAMPLES),
    responses={200: {"model": PublishedOut}, 202: {"model": PublishedOut}, **errors(400, 404, 409, 413, 415, 422)},
)
async def publish_index(
    request: Request, name: IndexName, body: Annotated[PublishIn, Depends(body_of(PublishIn))]
) -> Response:
    """Let an index's name stand for another version.

    With 200 every process answers with it; with 202 it is published as well, and those in `lacking` follow as soon as
    they have opened it. A version that holds what was deleted since is refused, and so is one that a
    check refused, unless `even_refused` is true.
    """
    return await _publish(request, "index", name, body)


@router.put(
    "/raters/{name}/current",
    tags=["raters"],
    dependencies=_ADMIN,
    openapi_extra=request_body(PublishIn, examples=_PUBLISH_EXAMPLES),
    responses={200: {"model": PublishedOut}, 202: {"model": PublishedOut}, **errors(400, 404, 409, 413, 415, 422)},
)
async def publish_rater(
    request: Request, name: RaterName, body: Annotated[PublishIn, Depends(body_of(PublishIn))]
) -> Response:
    """Let a rater's name stand for another version; 200 and 202 as with indexes."""
    return await _publish(request, "rater", name, body)


async def _publish(request: Request, kind: Kind, name: str, body: PublishIn) -> Response:
    state = state_of(request)
    version = await run_in_threadpool(_publish_version, state.home, kind, name, body)
    action = "rollback" if body.version is None else "publish"
    await run_in_threadpool(try_to_add_audit_row, request, action, f"{kind} {name}@{version}")
    return await _wait_until_served(request, kind, name, version)


def _publish_version(home: Settings, kind: Kind, name: str, body: PublishIn) -> str:
    artefacts = stored_artefacts(home, kind)
    _require_versions(artefacts.versions, name)
    if body.version is None:
        return artefacts.rollback(name)
    artefacts.publish(name, body.version, even_refused=body.even_refused)
    return body.version


async def _wait_until_served(request: Request, kind: Kind, name: str, version: str) -> Response:
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
