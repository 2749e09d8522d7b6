"""Why an endpoint gave no answer: a kind that programs rely on, and a message for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class FaultKind(StrEnum):
    """What went wrong with a request."""

    TIMEOUT = "timeout"  # no complete answer in time
    CONNECTION = "connection"  # nothing listens, or the name is unknown
    CUT_OFF = "cut_off"  # the answer ended early
    RATE_LIMITED = "rate_limited"  # 429, for longer than we wait
    SERVER = "server"  # 5xx
    NOT_JSON = "not_json"  # HTML, or anything else
    WRONG_SHAPE = "wrong_shape"  # JSON without the fields of an answer
    TOO_LARGE = "too_large"
    REDIRECT = "redirect"  # redirects are never followed
    ADDRESS = "address"  # a host or an address that is not allowed
    NO_ACCESS = "no_access"  # 401, 402, 403, or a quota that is used up
    REJECTED = "rejected"  # another 4xx
    GIVEN_UP = "given_up"  # not sent: the requests before it failed
    OVER_BUDGET = "over_budget"  # not sent: the budget is spent
    NOT_STORED = "not_stored"  # not sent: only stored answers count


# The same request may succeed a moment later; of others, the answer would be the same.
TRANSIENT: Final = frozenset({
    FaultKind.TIMEOUT,
    FaultKind.CONNECTION,
    FaultKind.CUT_OFF,
    FaultKind.RATE_LIMITED,
    FaultKind.SERVER,
    FaultKind.NOT_JSON,
    FaultKind.WRONG_SHAPE,
})  # fmt: skip


# The endpoint had the whole request, and may have answered it and charged for the answer.
CHARGED: Final = frozenset({FaultKind.TIMEOUT, FaultKind.CUT_OFF, FaultKind.WRONG_SHAPE, FaultKind.TOO_LARGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The reason why a request has no answer."""

    kind: FaultKind
    message: str
    retry_after_s: float | None = None  # as the endpoint wishes it

    @property
    def may_have_cost(self) -> bool:
        """Whether the request may have been charged without a usable answer."""
        return self.kind in CHARGED

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in TRANSIENT
