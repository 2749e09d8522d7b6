"""What all resources of the API have in common; `_sync/resource.py` is generated from it."""

from __future__ import annotations

from typing import Callable, Optional, TypeVar

from refaug_client._api import calls, models
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.call import Call

T = TypeVar("T")


class AsyncResource:
    """A part of the API, such as the reference sets."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def _send(self, call: Call[T], timeout_s: Optional[float]) -> T:
        return await self._connection.send(call, timeout_s=timeout_s)

    async def _list_all(
        self,
        page: Callable[[Optional[str], int], Call[models.Rows[T]]],
        after: Optional[str],
        limit: Optional[int],
        timeout_s: Optional[float],
    ) -> models.Rows[T]:
        """Return the rows of as many pages as there are, at most `limit` rows."""
        rows: models.Rows[T] = models.Rows([], after)
        while limit is None or len(rows) < limit:
            size = calls.PAGE if limit is None else min(calls.PAGE, limit - len(rows))
            next_page = await self._connection.send(page(rows.next, size), timeout_s=timeout_s)
            rows.extend(next_page)
            rows.next = next_page.next
            if next_page.next is None:
                break
        return rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.settings.url!r})"
