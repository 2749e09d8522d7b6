"""Routes of keys: listing, making and revoking them, and what the key of a request allows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.responses import Response

from refaug.core.errors import Conflict
from refaug.service.keys import Key, KeyStore
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import key_of, requires
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.audit_rows import actor_of_request, id_of_request
from refaug.service.web.handling.pagination import After, Limit, page_of
from refaug.service.web.openapi import errors
from refaug.service.web.schemas.common import STRICT, Page, ResponseModel
from refaug.service.web.state import ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class KeyIn(BaseModel):
    """A key that is to be made."""

    model_config = ConfigDict(
        **STRICT, json_schema_extra={"examples": [{"name": "trainer-7", "scopes": ["read", "score"]}]}
    )

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

_EXAMPLES: Final = {"a trainer": {"name": "trainer-7", "scopes": ["read", "score"], "rate_per_s": 20}}
_ADMIN: Final = [Depends(requires(Scope.ADMIN))]
KeyId = Annotated[str, Path(description="id of the key", pattern=r"^[a-z2-7]{12}$")]


@router.get("/key", dependencies=[Depends(requires(None))], responses={200: {"model": OwnKeyOut}})
async def get_own_key(request: Request) -> Response:
    """What the key of this request allows; everything where the server asks for no keys."""
    key, state = key_of(request), state_of(request)
    content = _describe(key)
    named = ("name", "scopes", "rate_per_s", "quota_per_day", "expires")
    return json_response({"required": state.serve.keys, **{name: content[name] for name in named}})


@router.get("/keys", dependencies=_ADMIN, responses={200: {"model": KeysOut}})
async def list_keys(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Keys by name, revoked ones too; never their tokens."""
    store = _store(request)

    def page() -> Mapping[str, Any]:
        keys = {key.name: key for key in store.list()}
        names, following = page_of(sorted(keys), after, limit)
        return {"keys": [_describe(keys[name]) for name in names], "next": following}

    return json_response(await database_threads.run_query(page))


@router.post(
    "/keys",
    status_code=201,
    dependencies=_ADMIN,
    openapi_extra=request_body(KeyIn, examples=_EXAMPLES),
    responses={201: {"model": NewKeyOut}, **errors(409)},
)
async def create_key(request: Request, body: Annotated[KeyIn, Depends(body_of(KeyIn))]) -> Response:
    """Make a key; its token is in this answer alone.

    A server that asks for no keys makes none (409), so that a stranger of an open server holds no key of it later.
    """
    state = state_of(request)
    _require_keys(state)

    def create() -> tuple[str, Key]:
        return _store(request).create(
            body.name,
            body.scopes,
            rate_per_s=body.rate_per_s,
            quota_per_day=body.quota_per_day,
            expires=body.expires,
            actor=actor_of_request(request),
            request=id_of_request(request),
        )

    token, key = await database_threads.run_query(create)
    await database_threads.run_query(state.keys.refresh)
    return json_response({**_describe(key), "token": token}, status=201)


@router.delete("/keys/{id}", dependencies=_ADMIN, responses={200: {"model": OneKeyOut}, **errors(404, 409)})
async def revoke_key(request: Request, id: KeyId) -> Response:  # noqa: A002  the name in the address
    """Revoke a key; every process knows within two seconds. A second time changes nothing."""
    state = state_of(request)
    _require_keys(state)

    def revoke() -> Key:
        return _store(request).revoke(id, actor=actor_of_request(request), request=id_of_request(request))

    key = await database_threads.run_query(revoke)
    await database_threads.run_query(state.keys.refresh)
    return json_response(_describe(key))


def _store(request: Request) -> KeyStore:
    return KeyStore(state_of(request).database)


def _require_keys(state: ServiceState) -> None:
    if not state.serve.keys:
        raise Conflict(
            "this server requires no keys, so it neither makes nor revokes any",
            remedy="start it with --keys; the first key is made by refaug admin keys create",
        )


def _describe(key: Key) -> Mapping[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(scope.value for scope in key.scopes),
        "rate_per_s": key.rate_per_s,
        "quota_per_day": key.quota_per_day,
        "created": _iso(key.created),
        "expires": _iso(key.expires),
        "revoked": _iso(key.revoked),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
