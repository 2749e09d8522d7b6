"""What an endpoint wishes by Retry-After, and the gate at which all requests wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite


def retry_after_s(text: str | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Read Retry-After: seconds, or a date; None where it says nothing usable."""
    if not text:
        return None
    try:
        seconds = float(text.strip())
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now()).total_seconds()
    return max(0.0, seconds) if isfinite(seconds) else None


class SharedPause:
    """Requests wait here until the time that the endpoint named last."""

    def __init__(self) -> None:
        self._opens_at = 0.0

    def close_for(self, seconds: float) -> None:
        """Let no request pass for so many seconds."""
        self._opens_at = max(self._opens_at, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Wait until requests may pass."""
        while (seconds := self._opens_at - time.monotonic()) > 0:
            await asyncio.sleep(seconds)
