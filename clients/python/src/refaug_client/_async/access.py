"""Keys and the audit log; `_sync/access.py` is generated from it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Optional, Union

from refaug_client._api import calls, models

from .resource import AsyncResource


class AsyncKeys(AsyncResource):
    """Who may ask for what; the server has to ask for keys."""

    async def own(self, *, timeout_s: Optional[float] = None) -> models.OwnKey:
        """Return what the key of this client allows."""
        return await self._send(calls.get_own_key(), timeout_s)

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Key]:
        """Return keys by name, revoked ones too, without their tokens."""
        return await self._list_all(
            lambda after, size: calls.list_keys(after=after, limit=size), after, limit, timeout_s
        )

    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        rate_per_s: Optional[float] = None,
        quota_per_day: Optional[int] = None,
        expires: Union[str, datetime, None] = None,
        timeout_s: Optional[float] = None,
    ) -> models.NewKey:
        """Make a key; its `token` is in this result alone.

        key = await client.keys.create("trainer-7", scopes=["read", "score"])
        """
        call = calls.create_key(
            name, scopes=scopes, rate_per_s=rate_per_s, quota_per_day=quota_per_day, expires=expires
        )
        return await self._send(call, timeout_s)

    async def revoke(self, id: str, *, timeout_s: Optional[float] = None) -> models.Key:  # noqa: A002
        """Let a key open nothing any more; every process of the server knows within two seconds."""
        return await self._send(calls.revoke_key(id), timeout_s)


class AsyncAudit(AsyncResource):
    """The audit log."""

    async def list(
        self,
        *,
        since: Union[str, datetime, None] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.AuditEntry]:
        """Return who published, removed, erased, queued, and made or revoked keys, the oldest first.

        rows = await client.audit.list(since="2026-11-20")
        """
        return await self._list_all(
            lambda after, size: calls.list_audit(since=since, after=after, limit=size), after, limit, timeout_s
        )
