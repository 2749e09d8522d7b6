"""Keys and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Optional, Union

from refaug_client._api.methods import K, Resource, route
from refaug_client._api.models.base import Rows
from refaug_client._api.models.server import AuditEntry, Key, NewKey, OwnKey


class Keys(Resource[K]):
    """Who may ask for what; the server has to ask for keys."""

    @route("GET", "/v1/key")
    def own(self) -> OwnKey:
        """Return what the key of this client allows."""

    @route("GET", "/v1/keys", key="keys")
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[Key]:
        """Return keys by name, revoked ones too, without their tokens."""

    @route("POST", "/v1/keys", repeatable=False)  # the token is in the first answer alone
    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        rate_per_s: Optional[float] = None,
        quota_per_day: Optional[int] = None,
        expires: Union[str, datetime, None] = None,
    ) -> NewKey:
        """Make a key; its `token` is in this result alone.

        key = client.keys.create("trainer-7", scopes=["read", "score"])
        """

    @route("DELETE", "/v1/keys/{id}")
    def revoke(self, id: str) -> Key:
        """Revoke a key; every process of the server knows within two seconds."""


class Audit(Resource[K]):
    """The audit log."""

    @route("GET", "/v1/audit", key="entries")
    def list(
        self,
        *,
        since: Union[str, datetime, None] = None,
        newest: Optional[bool] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> Rows[AuditEntry]:
        """Return who published, removed, erased, queued, and made or revoked keys, the oldest first or the newest.

        rows = client.audit.list(since="2026-11-20")
        """
