"""Indexes and raters: which there are, and which version of them serves."""

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

from core.errors import NotFound, RefaugError, Usage
from core.files import read_json
from core.versions import VersionName, Versions
from indexer.manifest import MANIFEST, IndexManifest
from indexer.update import publish_version, rollback
from rater.checkpoint import read_manifest
from service.artefacts import stored
from service.keys import Scope
from service.retrieval import places_of
from service.settings import Settings
from service.web.answers import json_answer
from service.web.body import body_of, takes
from service.web.deps import requires
from service.web.openapi import errors
from service.web.paging import After, Limit, page_of
from service.web.schemas.artefacts import (
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
from service.web.state import State, state_of

router = APIRouter(prefix="/v1")

Kind = Literal["index", "rater"]
IndexName = Annotated[str, InPath(description="name of the index")]
RaterName = Annotated[str, InPath(description="name of the rater")]
_LOOK_S: Final = 0.05  # between two looks at who serves a version: well below the quarter second in which they notice
_PUBLISH_EXAMPLES: Final = {
    "a version": {"version": "2026-11-20.1"},
    "the one before": {"rollback": True},
}
_READ: Final = [Depends(requires(Scope.READ))]
_ADMIN: Final = [Depends(requires(Scope.ADMIN))]


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/indexes", tags=["indexes"], dependencies=_READ, responses={200: {"model": IndexesOut}, **errors()})
def list_indexes(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Indexes by name, each with its versions and what is known of the published one."""
    state = state_of(request)
    names, following = page_of(_there(state, "index"), after, limit)
    return json_answer({"indexes": [_one(state, "index", name) for name in names], "next": following})


@router.get(
    "/indexes/{name}", tags=["indexes"], dependencies=_READ, responses={200: {"model": OneIndexOut}, **errors(400, 404)}
)
def get_index(request: Request, name: IndexName) -> Response:
    """One index."""
    return json_answer(_one(state_of(request), "index", name))


@router.get(
    "/indexes/{name}/versions",
    tags=["indexes"],
    dependencies=_READ,
    responses={200: {"model": IndexVersionsOut}, **errors(400, 404)},
)
def list_index_versions(request: Request, name: IndexName, after: After = "", limit: Limit = 50) -> Response:
    """Versions of an index, oldest first."""
    return json_answer(_versions(state_of(request), "index", name, after, limit))


@router.get("/raters", tags=["raters"], dependencies=_READ, responses={200: {"model": RatersOut}, **errors()})
def list_raters(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Raters by name, each with its versions and what is known of the published one."""
    state = state_of(request)
    names, following = page_of(_there(state, "rater"), after, limit)
    return json_answer({"raters": [_one(state, "rater", name) for name in names], "next": following})


@router.get(
    "/raters/{name}", tags=["raters"], dependencies=_READ, responses={200: {"model": OneRaterOut}, **errors(400, 404)}
)
def get_rater(request: Request, name: RaterName) -> Response:
    """One rater."""
    return json_answer(_one(state_of(request), "rater", name))


@router.get(
    "/raters/{name}/versions",
    tags=["raters"],
    dependencies=_READ,
    responses={200: {"model": RaterVersionsOut}, **errors(400, 404)},
)
def list_rater_versions(request: Request, name: RaterName, after: After = "", limit: Limit = 50) -> Response:
    """Versions of a rater, oldest first."""
    return json_answer(_versions(state_of(request), "rater", name, after, limit))


def _one(state: State, kind: Kind, name: str) -> dict[str, Any]:
    """An artefact with the facts of its published version."""
    artefacts = stored(state.home)[kind]
    there, current = _required(artefacts, name), artefacts.current(name)
    published = _facts(state, kind, artefacts, name, current, current) if current in there else None
    return {"name": name, "current": current, "versions": there, "published": published}


def _there(state: State, kind: Kind) -> list[str]:
    """The names under which there is a version to speak of; a build that was begun has made none yet."""
    artefacts = stored(state.home)[kind]
    return [name for name in artefacts.names() if artefacts.versions(name)]


def _versions(state: State, kind: Kind, name: str, after: str, limit: int) -> dict[str, Any]:
    artefacts = stored(state.home)[kind]
    there, current = _required(artefacts, name), artefacts.current(name)
    if after and VersionName.parse(after) is None:
        raise Usage(f"after: {after[:40]!r} is no version", remedy="give what `next` was on the page before")
    page, following = page_of(there, after, limit, order=VersionName.parse)
    facts = [_facts(state, kind, artefacts, name, version, current) for version in page]
    return {"name": name, "current": current, "versions": facts, "next": following}


def _required(artefacts: Versions, name: str) -> list[str]:
    """The versions of an artefact; NotFound where there are none."""
    there = artefacts.versions(name)
    if not there:
        known = ", ".join(artefacts.names()) or "none yet"
        raise NotFound(f"there is no {artefacts.kind} {name}", remedy=f"there are: {known}")
    return there


def _facts(
    state: State, kind: Kind, artefacts: Versions, name: str, version: str | None, current: str | None
) -> dict[str, Any]:
    """A version in one row; a damaged one must not hide the others."""
    assert version is not None
    row: dict[str, Any] = {"version": version, "published": version == current}
    try:
        facts, problem = _FACTS[kind](artefacts.folder(name, version)), None
    except RefaugError as error:
        facts, problem = dict.fromkeys(_NAMED[kind]), state.without_paths(error.message)
    except FileNotFoundError:  # removed since it was listed
        facts, problem = dict.fromkeys(_NAMED[kind]), "it was removed in this moment"
    return {**row, "problem": problem, **facts}


def _of_index(folder: Path) -> dict[str, Any]:
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


def _of_rater(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder)
    files: Any = read_json(folder / MANIFEST).get("files", {})
    return {
        "id": manifest.id[:12],
        "logs": list(manifest.details.get("logs", [])),
        "bytes": _bytes(files),
        "tokenizer": manifest.tokenizer,
        "languages": list(manifest.languages),
        "temperature": manifest.temperature,
        "embedding": manifest.config.embedding,
        "hidden": manifest.config.hidden,
    }


def _bytes(files: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(facts["size"] for facts in files.values())


_FACTS: Final[Mapping[str, Callable[[Path], dict[str, Any]]]] = {"index": _of_index, "rater": _of_rater}
_NAMED: Final = {
    kind: [name for name in model.model_fields if name not in ("version", "published", "problem")]
    for kind, model in (("index", IndexVersionOut), ("rater", RaterVersionOut))
}


# ── publishing ────────────────────────────────────────────────────────────────────────────────────────────────────


@router.put(
    "/indexes/{name}/current",
    tags=["indexes"],
    dependencies=_ADMIN,
    openapi_extra=takes(PublishIn, examples=_PUBLISH_EXAMPLES),
    responses={200: {"model": PublishedOut}, 202: {"model": PublishedOut}, **errors(400, 404, 409, 413, 415, 422)},
)
async def publish_index(
    request: Request, name: IndexName, wanted: Annotated[PublishIn, Depends(body_of(PublishIn))]
) -> Response:
    """Let an index's name stand for another version.

    With 200 every process answers with it; with 202 it is published as well, and those in `lacking` follow as soon as
    they have opened it. A version that holds what was deleted since is refused.
    """
    state = state_of(request)
    version = await run_in_threadpool(_publish_index, state.home, name, wanted)
    return await _published(request, "index", name, version)


@router.put(
    "/raters/{name}/current",
    tags=["raters"],
    dependencies=_ADMIN,
    openapi_extra=takes(PublishIn, examples=_PUBLISH_EXAMPLES),
    responses={200: {"model": PublishedOut}, 202: {"model": PublishedOut}, **errors(400, 404, 409, 413, 415, 422)},
)
async def publish_rater(
    request: Request, name: RaterName, wanted: Annotated[PublishIn, Depends(body_of(PublishIn))]
) -> Response:
    """Let a rater's name stand for another version; 200 and 202 as with indexes."""
    state = state_of(request)
    version = await run_in_threadpool(_publish_rater, state.home, name, wanted)
    return await _published(request, "rater", name, version)


def _publish_index(home: Settings, name: str, wanted: PublishIn) -> str:
    places = places_of(home)
    _required(places.indexes, name)
    if wanted.version is None:
        return rollback(places, name)
    publish_version(places, name, wanted.version)
    return wanted.version


def _publish_rater(home: Settings, name: str, wanted: PublishIn) -> str:
    raters = stored(home)["rater"]
    _required(raters, name)
    if wanted.version is None:
        return raters.rollback(name)
    raters.publish(name, wanted.version)
    return wanted.version


async def _published(request: Request, kind: Kind, name: str, version: str) -> Response:
    """Who serves the version, as soon as all do or the time is over."""
    state = state_of(request)
    until = time.monotonic() + state.serve.publish_wait_s
    while lacking := await run_in_threadpool(state.presence.lacking, kind, name, version):
        if time.monotonic() >= until:
            break
        await asyncio.sleep(_LOOK_S)
    live = await run_in_threadpool(state.presence.live)
    body = {
        "kind": kind,
        "name": name,
        "version": version,
        "serving": [one.pid for one in live if one.versions.get(kind, {}).get(name) == version],
        "lacking": list(lacking),
        "problems": {what: state.without_paths(why) for what, why in state.engines.problems().items()},
    }
    return json_answer(body, status=202 if lacking else 200)
