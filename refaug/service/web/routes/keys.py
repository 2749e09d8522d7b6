"""Routes of keys: listing, making and revoking them, and what the key of a request allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from pydantic import AwareDatetime, BaseModel, Field
from starlette.responses import Response

from refaug.core.errors import Conflict
from refaug.service.keys import Key, KeyStore
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import After, Limit, acting, key_of, page_of
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import route_options
from refaug.service.web.schemas.common import Page, ResponseModel, StrictModel
from refaug.service.web.state import ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class KeyIn(StrictModel):
    """A key that is to be made."""

    name: str = Field(description="whose key it is; a name is not used again", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    scopes: list[Scope] = Field(
        description="what it allows; none includes another, but for admin, which is all",
        min_length=1,
        max_length=len(Scope),
    )
    rate_per_s: float | None = Field(
        default=None, description="requests a second, at most", gt=0, le=1_000_000, allow_inf_nan=False
    )
    quota_per_day: int | None = Field(default=None, description="requests a day (UTC), at most", ge=1, le=1_000_000_000)
    expires: AwareDatetime | None = Field(default=None, description="when it ends; null: never")


class KeyOut(BaseModel):
    """A key, without its token."""

    id: str = Field(description="names the key")
    name: str = Field(description="whose key it is")
    scopes: list[Scope] = Field(description="what it allows")
    rate_per_s: float | None = Field(description="requests a second, at most")
    quota_per_day: int | None = Field(description="requests a day (UTC), at most")
    created: str | None = Field(description="when it was made")
    expires: str | None = Field(description="when it ends; null: never")
    revoked: str | None = Field(description="when it was revoked")


class OneKeyOut(KeyOut, ResponseModel):
    """A key, without its token."""


class NewKeyOut(OneKeyOut):
    """A key that was made, with its token."""

    token: str = Field(description="the key itself: no later answer has it")


class KeysOut(Page, ResponseModel):
    """A page of keys."""

    keys: list[KeyOut] = Field(description="by name, revoked ones too")


class OwnKeyOut(ResponseModel):
    """What the key of the request allows."""

    required: bool = Field(description="whether this server requires keys")
    name: str = Field(description="whose key it is; `anonymous` where none are required")
    scopes: list[Scope] = Field(description="what it allows; admin includes all")
    rate_per_s: float | None = Field(description="requests a second, at most")
    quota_per_day: int | None = Field(description="requests a day (UTC), at most")
    expires: str | None = Field(description="when it ends; null: never")


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["keys"])

KeyId = Annotated[str, Path(description="id of the key", pattern=r"^[a-z2-7]{12}$")]


@router.get("/key", **route_options(None, OwnKeyOut))
async def get_own_key(request: Request) -> Response:
    """What the key of this request allows; everything where the server asks for no keys."""
    key, state = key_of(request), state_of(request)
    content = key.as_json()
    named = ("name", "scopes", "rate_per_s", "quota_per_day", "expires")
    return json_response({"required": state.serve.keys, **{name: content[name] for name in named}})


@router.get("/keys", **route_options(Scope.ADMIN, KeysOut))
async def list_keys(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Keys by name, revoked ones too; never their tokens."""
    store = _store(request)

    def page() -> Mapping[str, Any]:
        keys = {key.name: key for key in store.list()}
        names, following = page_of(sorted(keys), after, limit)
        return {"keys": [keys[name].as_json() for name in names], "next": following}

    return json_response(await database_threads.run_query(page))


@router.post("/keys", **route_options(Scope.ADMIN, {201: NewKeyOut}, 409, body=KeyIn))
async def create_key(request: Request, body: Annotated[KeyIn, Depends(body_of(KeyIn))]) -> Response:
    """Make a key; its token is in this answer alone.

    A server that asks for no keys makes none (409), so that a stranger of an open server holds no key of it later.
    """
    state = state_of(request)
    _require_keys(state)

    def create() -> tuple[str, Key]:
        return _store(request).create(**dict(body), **acting(request))

    token, key = await database_threads.run_query(create)
    await database_threads.run_query(state.keys.refresh)
    return json_response({**key.as_json(), "token": token}, status=201)


@router.delete("/keys/{id}", **route_options(Scope.ADMIN, OneKeyOut, 404, 409))
async def revoke_key(request: Request, id: KeyId) -> Response:
    """Revoke a key; every process knows within two seconds. A second time changes nothing."""
    state = state_of(request)
    _require_keys(state)

    def revoke() -> Key:
        return _store(request).revoke(id, **acting(request))

    key = await database_threads.run_query(revoke)
    await database_threads.run_query(state.keys.refresh)
    return json_response(key.as_json())


def _store(request: Request) -> KeyStore:
    return KeyStore(state_of(request).database)


def _require_keys(state: ServiceState) -> None:
    if not state.serve.keys:
        raise Conflict(
            "this server requires no keys, so it neither makes nor revokes any",
            remedy="start it with --keys; the first key is made by refaug admin keys create",
        )
