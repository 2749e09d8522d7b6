"""Long work of requests in a few threads apart, one after the other: the others are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from refaug.core.errors import Expired
from refaug.service.web.handling.request_lease import DeadlineProgress

T = TypeVar("T")


class Turns:
    """Threads for one kind of work, and the line before them."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[DeadlineProgress], T], deadline: float) -> T:
        """Return the result of the work, once a thread is free for it; Expired at the deadline.

        The work calls its progress again and again, which raises once the caller has stopped waiting. A caller that
        is cancelled leaves the line, and its thread goes to the next one when the work has looked.
        """
        progress = DeadlineProgress(deadline)
        future = self._threads.submit(copy_context().run, work, progress)
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise Expired(
                "the time was over before the answer was ready", remedy="try again in a moment, or with more time"
            ) from None
        finally:
            progress.is_given_up = True
