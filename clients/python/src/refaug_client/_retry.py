"""When a request is sent again, and after how long: decided from values alone, slept elsewhere."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Callable, Optional

from ._errors import BadAnswer, CannotConnect, Conflict, Later, NoAnswer, RefaugError, Usage


@dataclass(frozen=True)
class Retry:
    """How often a request is tried, and how long is waited in between.

    The pause doubles from `first_s` up to `most_s`, drawn between nothing and that (full jitter), so that many clients
    do not come back at the same moment. A server that says when to come back (Retry-After) is obeyed; where that is
    later than what is left of `total_s`, the error is raised at once instead of after a sleep that cannot help.
    """

    tries: int = 6
    first_s: float = 0.2
    most_s: float = 10.0
    total_s: float = 90.0
    draw: Callable[[], float] = field(default=random.random, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise Usage(f"tries={self.tries}: a request is sent at least once", remedy="tries=1 for no second try")
        for name in ("first_s", "most_s", "total_s"):
            if not getattr(self, name) >= 0:
                raise Usage(f"{name}={getattr(self, name)} is not a number of seconds", remedy="0 or more")

    def pause(self, error: RefaugError, *, tried: int, spent_s: float, repeatable: bool) -> Optional[float]:
        """Seconds until the next try; None where there is to be none."""
        if tried >= self.tries or not is_worth_repeating(error, repeatable=repeatable):
            return None
        asked = error.retry_after_s if isinstance(error, Later) else None
        if isinstance(error, Conflict):
            asked = 0.1 * 2 ** min(tried, 6)
        wait = self.most_s if self.first_s * 2 ** min(tried - 1, 60) > self.most_s else self.first_s * 2 ** (tried - 1)
        wait *= self.draw()
        if asked is not None:  # never before it was said, and not all at that very moment
            wait = asked + min(wait, 0.1 * asked)
        return None if spent_s + wait > self.total_s else wait


NO_RETRY = Retry(tries=1)


def is_worth_repeating(error: RefaugError, *, repeatable: bool) -> bool:
    """Whether the same request may succeed later, and sending it twice does no harm.

    A server that says 429 or 503 has done nothing, and without a connection nobody has: anything may be sent again.
    What was lost on the way may have been done: only what can be repeated (`repeatable`) is.
    """
    if isinstance(error, (Later, CannotConnect)):
        return True
    if isinstance(error, Conflict):  # the first request with this idempotency key is still being answered
        return repeatable and error.code == "in_progress"
    if isinstance(error, BadAnswer):
        gone = error.status is None or error.status < 300 or error.status in (408, 425, 429, 500, 502, 503, 504)
        return repeatable and gone
    return repeatable and isinstance(error, NoAnswer)
