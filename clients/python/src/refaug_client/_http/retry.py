"""When a failed request is sent again, and after how long; nothing sleeps here."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Callable, Optional

from refaug_client._core.errors import (
    BadAnswer,
    CannotConnect,
    Conflict,
    Later,
    NoAnswer,
    Problem,
    RefaugError,
    TooMany,
    Usage,
)

# not the generator that a training seeds: a retry would change its draws, and all ranks would wait equally long
_DICE = random.SystemRandom()


def draw_random() -> float:
    """Return a number from 0 up to 1 that differs between processes."""
    return _DICE.random()


@dataclass(frozen=True)
class Retry:
    """How often a request is tried, and how long the client waits in between.

    The pause doubles from `first_s` up to `most_s`, drawn between nothing and that (full jitter), so that many clients
    do not come back at the same moment. A server that says when to come back (Retry-After) is obeyed; where that is
    later than what is left of `total_s`, the error is raised at once instead of after a sleep that cannot help.
    """

    tries: int = 6
    first_s: float = 0.2
    most_s: float = 10.0
    total_s: float = 90.0
    draw: Callable[[], float] = field(default=draw_random, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tries, bool) or not isinstance(self.tries, int):
            raise Usage(f"tries={self.tries!r} is no number of tries", remedy="1 for no second try")
        if self.tries < 1:
            raise Usage(f"tries={self.tries}: a request is sent at least once", remedy="tries=1 for no second try")
        for name in ("first_s", "most_s", "total_s"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
                raise Usage(f"{name}={seconds!r} is not a number of seconds", remedy="0 or more")

    def pause(self, error: RefaugError, *, tried: int, spent_s: float, repeatable: bool) -> Optional[float]:
        """Return the seconds until the next try; None where there is none."""
        busy = is_being_answered(error)
        if (
            self.tries == 1
            or (tried >= self.tries and not busy)
            or not is_worth_repeating(error, repeatable=repeatable)
        ):
            return None
        wait = min(self.most_s, self.first_s * 2 ** min(tried - 1, 60)) * self.draw()
        retry_after_s = error.retry_after_s if isinstance(error, (Later, BadAnswer)) else None
        if retry_after_s is None and busy:  # the server works on it already: the number of tries does not count
            retry_after_s = min(self.most_s, 0.1 * 2 ** min(tried, 60))
        if retry_after_s is not None:  # never earlier than the server says, and not all clients at once
            wait = max(wait, retry_after_s + min(wait, 0.1 * retry_after_s))
        return None if spent_s + wait > self.total_s else wait


NO_RETRY = Retry(tries=1)


def is_being_answered(error: RefaugError) -> bool:
    """Whether the server still works on the first request with the same idempotency key."""
    return isinstance(error, Conflict) and error.code == "in_progress"


def is_worth_repeating(error: RefaugError, *, repeatable: bool) -> bool:
    """Whether the same request may succeed later, and sending it twice does no harm.

    Without a connection the server has done nothing, nor has an overloaded server: what it refused may be sent again,
    whatever it is. What was lost on the way, or timed out, may have been done: only `repeatable` ones are sent again.
    """
    if isinstance(error, (CannotConnect, TooMany)) or (isinstance(error, Later) and error.code == "overloaded"):
        return True
    if isinstance(error, BadAnswer):
        is_transient = error.status is None or error.status < 300 or error.status in (408, 425, 429, 500, 502, 503, 504)
        return repeatable and is_transient and not error.complete
    if isinstance(error, Problem):
        return repeatable and (isinstance(error, Later) or error.status == 408 or is_being_answered(error))
    return repeatable and isinstance(error, NoAnswer)
