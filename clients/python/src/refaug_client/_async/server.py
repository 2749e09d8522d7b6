"""The asyncio client's calls about the server itself; `_sync/server.py` is generated from it."""

from __future__ import annotations

from typing import Optional

from refaug_client._api import calls, models
from refaug_client._http.async_connection import AsyncConnection


class AsyncServerCalls:
    """The calls of a client that are about the server: its metrics, its health, its problems."""

    _connection: AsyncConnection

    async def metrics(self, *, timeout_s: Optional[float] = None) -> models.Rows[models.MetricInfo]:
        """Return the server's metrics: what each needs, its range, its parameters."""
        return await self._connection.send(calls.metrics(), timeout_s=timeout_s)

    async def health(self, *, timeout_s: Optional[float] = None) -> models.Health:
        """Return the server's status and its version."""
        return await self._connection.send(calls.health(), timeout_s=timeout_s)

    async def ready(self, *, timeout_s: Optional[float] = None) -> models.Ready:
        """Return whether the server answers without waiting for anything; `missing` names what is not there yet."""
        return await self._connection.send(calls.ready(), timeout_s=timeout_s)

    async def server_metrics(self, *, timeout_s: Optional[float] = None) -> str:
        """Return the server's figures, in Prometheus' text format."""
        return await self._connection.send(calls.server_metrics(), timeout_s=timeout_s)

    async def explain(self, code: str, *, timeout_s: Optional[float] = None) -> models.ProblemCode:
        """Return the meaning of a problem's code, such as that of an error: `await client.explain(error.code)`."""
        return await self._connection.send(calls.explain(code), timeout_s=timeout_s)
