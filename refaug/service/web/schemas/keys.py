"""Models of keys."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from refaug.service.scopes import Scope
from refaug.service.web.schemas.common import STRICT, Page, ResponseModel


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

    required: bool = Field(description="whether this server asks for keys")
    name: str = Field(description="whose key it is; `anonymous` where none are asked for")
    scopes: list[Scope] = Field(description="what it allows; admin includes all")
    rate_per_s: float | None = Field(description="requests a second, at most")
    quota_per_day: int | None = Field(description="requests a day (UTC), at most")
    expires: str | None = Field(description="when it ends; null: never")
