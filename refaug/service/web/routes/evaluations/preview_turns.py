"""Previews in turn: few at once, each until its deadline, and none for a client that has disconnected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from refaug.core.errors import Expired
from refaug.service.web.handling.deadline_progress import DeadlineProgress

T = TypeVar("T")
MAX_PREVIEWS: Final = 2  # at once: each takes the memory of what it reads, and processor time of all requests
_THREADS: Final = ThreadPoolExecutor(MAX_PREVIEWS, thread_name_prefix="preview")


async def run_in_turn(work: Callable[[Callable[[], None]], T], deadline: float) -> T:
    """Return the result of the work, once a thread is free for it; Expired at the deadline.

    The work is given a check to call again and again: it raises as soon as nobody waits for the result. A caller that
    is cancelled leaves the line, and its thread goes to the next one when the work has looked.
    """
    progress = DeadlineProgress(deadline)
    future = _THREADS.submit(copy_context().run, work, lambda: progress.advance(0))
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        raise Expired(
            "the time was over before the files were read", remedy="ask again in a moment, or with more time"
        ) from None
    finally:
        progress.is_given_up = True
