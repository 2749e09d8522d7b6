"""When a request is sent again, and after how long: decided from values alone, slept elsewhere."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Callable, Optional

from ._errors import BadAnswer, CannotConnect, Conflict, Later, NoAnswer, Problem, RefaugError, TooMany, Usage

# Not the generator that a training seeds: its draws would change with every hiccup, and all ranks would wait alike.
_DICE = random.SystemRandom()


def drawn() -> float:
    """A number from 0 up to 1, another one in every process."""
    return _DICE.random()


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
    draw: Callable[[], float] = field(default=drawn, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tries, bool) or not isinstance(self.tries, int):
            raise Usage(f"tries={self.tries!r} is no number of tries", remedy="1 for no second try")
        if self.tries < 1:
            raise Usage(f"tries={self.tries}: a request is sent at least once", remedy="tries=1 for no second try")
        for name in ("first_s", "most_s", "total_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise Usage(f"{name}={value!r} is not a number of seconds", remedy="0 or more")

    def pause(self, error: RefaugError, *, tried: int, spent_s: float, repeatable: bool) -> Optional[float]:
        """Seconds until the next try; None where there is to be none."""
        busy = is_being_answered(error)
        if (
            self.tries == 1
            or (tried >= self.tries and not busy)
            or not is_worth_repeating(error, repeatable=repeatable)
        ):
            return None
        wait = min(self.most_s, self.first_s * 2 ** min(tried - 1, 60)) * self.draw()
        asked = error.retry_after_s if isinstance(error, (Later, BadAnswer)) else None
        if asked is None and busy:  # it works for us already: how often it is asked does not count
            asked = min(self.most_s, 0.1 * 2 ** min(tried, 60))
        if asked is not None:  # never before it was said, and not all at that very moment
            wait = max(wait, asked + min(wait, 0.1 * asked))
        return None if spent_s + wait > self.total_s else wait


NO_RETRY = Retry(tries=1)


def is_being_answered(error: RefaugError) -> bool:
    """Whether the first request with the same idempotency key is still being worked on."""
    return isinstance(error, Conflict) and error.code == "in_progress"


def is_worth_repeating(error: RefaugError, *, repeatable: bool) -> bool:
    """Whether the same request may succeed later, and sending it twice does no harm.

    Without a connection nobody has done anything, nor has a server that has too much to do: what it refused may be sent
    again, whatever it is. What was lost on the way, or ran out of time, may have been done: only what can be repeated
    (`repeatable`) is.
    """
    if isinstance(error, (CannotConnect, TooMany)) or (isinstance(error, Later) and error.code == "overloaded"):
        return True
    if isinstance(error, BadAnswer):
        gone = error.status is None or error.status < 300 or error.status in (408, 425, 429, 500, 502, 503, 504)
        return repeatable and gone and not error.complete
    if isinstance(error, Problem):
        return repeatable and (isinstance(error, Later) or error.status == 408 or is_being_answered(error))
    return repeatable and isinstance(error, NoAnswer)
