"""Keys and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Optional, Union

from refaug_client._api.bodies import request_body, to_moment
from refaug_client._api.methods import K, Resource, route
from refaug_client._api.models.base import Rows
from refaug_client._api.models.server import AuditEntry, Key, NewKey, OwnKey
from refaug_client._api.readers import listing, read_model
from refaug_client._http.call import Call, path


class Keys(Resource[K]):
    """Who may ask for what; the server has to ask for keys."""

    @route
    def own(self) -> Call[OwnKey]:
        """Return what the key of this client allows."""
        return Call("GET", "/v1/key", read_model(OwnKey))

    @route
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Call[Rows[Key]]:
        """Return keys by name, revoked ones too, without their tokens."""
        return listing("/v1/keys", Key, "keys", after=after, limit=limit)

    @route
    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        rate_per_s: Optional[float] = None,
        quota_per_day: Optional[int] = None,
        expires: Union[str, datetime, None] = None,
    ) -> Call[NewKey]:
        """Make a key; its `token` is in this result alone.

        key = client.keys.create("trainer-7", scopes=["read", "score"])
        """
        document = request_body(
            name=name,
            scopes=list(scopes),
            rate_per_s=rate_per_s,
            quota_per_day=quota_per_day,
            expires=to_moment(expires),
        )
        # the token is in the first answer alone
        return Call("POST", "/v1/keys", read_model(NewKey), body=document, repeatable=False)

    @route
    def revoke(self, id: str) -> Call[Key]:
        """Revoke a key; every process of the server knows within two seconds."""
        return Call("DELETE", path("v1", "keys", id), read_model(Key))


class Audit(Resource[K]):
    """The audit log."""

    @route
    def list(
        self, *, since: Union[str, datetime, None] = None, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Call[Rows[AuditEntry]]:
        """Return who published, removed, erased, queued, and made or revoked keys, the oldest first.

        rows = client.audit.list(since="2026-11-20")
        """
        return listing("/v1/audit", AuditEntry, "entries", after=after, limit=limit, since=to_moment(since))
