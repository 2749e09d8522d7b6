"""What all resources of the API have in common; `_sync/resource.py` is generated from it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

from refaug_client._api import calls, models
from refaug_client._core.errors import NoAnswer
from refaug_client._core.files import download_path, write_atomically
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.call import Call
from refaug_client._http.pausing import async_pause

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

    async def _download(
        self, call: Call[Any], to: Union[str, os.PathLike[str]], otherwise: str, timeout_s: Optional[float]
    ) -> Path:
        """Write an answer to a file, which is there whole or not at all, or into a folder; begin anew after a break."""
        began, tried = time.monotonic(), 0
        while True:
            tried, is_begun = tried + 1, False
            try:
                async with self._connection.stream(call, timeout_s=timeout_s) as response:
                    is_begun = True
                    target = download_path(to, response.headers, otherwise)
                    with write_atomically(target) as file:
                        async for piece in response.aiter_bytes():
                            file.write(piece)
            except NoAnswer as error:
                spent_s, retry = time.monotonic() - began, self._connection.settings.retry
                wait = retry.pause(error, tried=tried, spent_s=spent_s, repeatable=True) if is_begun else None
                if wait is None:
                    raise
                await async_pause(self._connection, wait)
            else:
                return target

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.settings.url!r})"
