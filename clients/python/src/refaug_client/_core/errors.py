"""Every error that this library raises on purpose, as one tree.

RefaugError
├── Usage                 the call makes no sense, and nothing was sent
├── NoAnswer              no answer, or not all of it
│   ├── CannotConnect     no connection, so the server received nothing
│   ├── ConnectionLost    sent, perhaps received, not answered
│   └── TimedOut          no answer in time
├── BadAnswer             an answer that is not refaug's: a proxy's page, half a document
├── Problem               refaug refused, and says why: a problem document
│   ├── BadInput          400, 413, 415, 422 and the like: another request would be right
│   ├── NoKey             401
│   ├── NotAllowed        403
│   ├── NotFound          404
│   ├── Conflict          409
│   ├── Withdrawn         410: a reference set that is not to be used any more
│   ├── Later             429, 503: the same request may go through later
│   │   ├── TooMany       429
│   │   └── Unavailable   503
│   └── ServerFault       500, 501, 507: the server's fault
├── JobFailed             a job ended in an error while the client waited for it
│   └── JobCancelled      … or was stopped
├── WrongPurpose          a reward asked of a reference set that is there for testing
├── NoScore               a reply has no score, where one is needed
├── TooManyCopies         replies repeat the utterance, so that training should end
├── QueueFull             more replies wait for their scores than a scorer may hold
└── NotStarted            a local server did not get ready
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional


class RefaugError(Exception):
    """The base of all errors of this library; `request_id` names the request in the server's log."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        request_id: Optional[str] = None,
        status: Optional[int] = None,
        tries: int = 1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.request_id = request_id
        self.status = status
        self.tries = tries

    def __str__(self) -> str:
        parts = [self.message]
        if self.remedy:
            parts.append(self.remedy)
        notes = [] if self.tries == 1 else [f"tried {self.tries} times"]
        if self.request_id:
            notes.append(f"request {self.request_id}")
        return "; ".join(parts) + (f" ({', '.join(notes)})" if notes else "")

    def __reduce__(self) -> Any:  # worker processes pass errors to their parent
        return _rebuild, (type(self), dict(self.__dict__))


def _rebuild(kind: type[RefaugError], values: Mapping[str, Any]) -> RefaugError:
    error = kind.__new__(kind, values["message"])
    error.__dict__.update(values)
    return error


class Usage(RefaugError):
    """The call makes no sense as it stands; nothing was sent."""


class NoAnswer(RefaugError):
    """No answer came, or not all of it."""


class CannotConnect(NoAnswer):
    """There was no connection, so the server received nothing."""


class ConnectionLost(NoAnswer):
    """The request was sent, at least in part, and the connection ended before the answer did."""


class TimedOut(NoAnswer):
    """The answer did not come in time."""


class BadAnswer(RefaugError):
    """Something answered that is not refaug, or not all of an answer arrived; `excerpt` is how it begins.

    `complete` means that the answer was whole and JSON, but not of the expected form: a retry would bring the same.
    """

    def __init__(
        self,
        message: str,
        *,
        excerpt: str = "",
        content_type: str = "",
        complete: bool = False,
        retry_after_s: Optional[float] = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.excerpt = excerpt
        self.content_type = content_type
        self.complete = complete
        self.retry_after_s = retry_after_s


class Problem(RefaugError):
    """refaug refused, and says why: `problem` is the whole problem document, `code` never changes its meaning."""

    def __init__(self, message: str, *, problem: Mapping[str, Any], **facts: Any) -> None:
        super().__init__(message, **facts)
        self.problem: dict[str, Any] = dict(problem)
        self.code: str = str(problem.get("code", ""))

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Every place of the request that is wrong, where the server lists them."""
        return [dict(one) for one in self.problem.get("errors") or []]


class BadInput(Problem):
    """The request cannot be answered as it is; another one would be right."""


class NoKey(Problem):
    """No key was given, or the server does not know it."""


class NotAllowed(Problem):
    """The key is known, and does not allow this."""


class NotFound(Problem):
    """There is nothing of that name."""


class Conflict(Problem):
    """The request contradicts what is there."""


class Withdrawn(Problem):
    """The reference set was withdrawn."""

    @property
    def instead(self) -> Optional[str]:
        """The set to use instead, where one was named."""
        replacement = self.problem.get("instead")
        return None if replacement is None else str(replacement)


class Later(Problem):
    """Not now; the same request may go through after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: Optional[float] = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.retry_after_s = retry_after_s


class TooMany(Later):
    """More requests than the key is allowed in this time."""


class Unavailable(Later):
    """The server is too busy, starting, stopping, or lacks something that it needs now."""


class ServerFault(Problem):
    """The server's own fault."""


class JobFailed(RefaugError):
    """A job ended in an error while the client waited for it; `job` is all that is known of it."""

    def __init__(self, message: str, *, job: Any = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.job = job


class JobCancelled(JobFailed):
    """A job was cancelled while the client waited for it."""


class WrongPurpose(RefaugError):
    """A reference set that is there for testing was to be used for rewards: optimising on it would spoil it."""


class NoScore(RefaugError):
    """A reply has no score, where one is needed."""


class TooManyCopies(RefaugError):
    """Replies that repeat the utterance have become frequent: the model learns to echo, and training should end."""


class QueueFull(RefaugError):
    """More replies wait for their scores than a scorer may hold; these were not taken."""


class NotStarted(RefaugError):
    """A local server did not get ready; `log` is the end of its output.

    Where it gave an error, `code` is that error's: `locked` for a home that has a server already.
    """

    def __init__(
        self, message: str, *, code: str = "", exit_code: Optional[int] = None, log: str = "", **facts: Any
    ) -> None:
        super().__init__(message, **facts)
        self.code = code
        self.exit_code = exit_code
        self.log = log
