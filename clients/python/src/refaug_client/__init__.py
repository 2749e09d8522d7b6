"""A client of refaug: how good a reply is, when many different replies would have been fine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._client import Client
from ._errors import (
    BadAnswer,
    BadInput,
    CannotConnect,
    Conflict,
    ConnectionLost,
    JobCancelled,
    JobFailed,
    Later,
    NoAnswer,
    NoKey,
    NoScore,
    NotAllowed,
    NotFound,
    NotStarted,
    OldServer,
    Problem,
    QueueFull,
    RefaugError,
    ServerFault,
    TimedOut,
    TooMany,
    Unavailable,
    Usage,
    Withdrawn,
    WrongPurpose,
)
from ._items import Candidate, Dialogue, Item, Pair, Purpose, ReferenceText, Retrieval, Turn
from ._large import Stream
from ._models import (
    BadDialogue,
    Bin,
    Comparison,
    Evidence,
    FieldProblem,
    Firing,
    FrozenSet,
    Health,
    Index,
    IndexVersion,
    Job,
    ListedSet,
    Log,
    MetricInfo,
    MetricScores,
    MetricSums,
    Model,
    Parameter,
    Posted,
    ProblemCode,
    Published,
    Rater,
    RaterVersion,
    Ratings,
    Ready,
    Reference,
    ReferencedItem,
    References,
    ReferenceSet,
    ReplyScore,
    Resampling,
    Rows,
    Schedule,
    ScoredSet,
    Scores,
    SystemScores,
    Versions,
    Waiting,
    Withdrawal,
)
from ._retry import Retry
from ._scored import ScoredItem
from ._sse import Event
from ._version import VERSION

if TYPE_CHECKING:
    from ._async_client import AsyncClient
    from ._async_large import AsyncStream
    from ._pending import Counts, Outcome, Pending
    from ._rewards import Reward
    from ._scorer import Scorer

__version__ = VERSION

# What a script that scores a file never needs is imported when it is first asked for.
_LATER = {
    "AsyncClient": "_async_client",
    "AsyncStream": "_async_large",
    "Counts": "_pending",
    "Outcome": "_pending",
    "Pending": "_pending",
    "Reward": "_rewards",
    "Scorer": "_scorer",
}

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "BadAnswer",
    "BadDialogue",
    "BadInput",
    "Bin",
    "Candidate",
    "CannotConnect",
    "Client",
    "Comparison",
    "Conflict",
    "ConnectionLost",
    "Counts",
    "Dialogue",
    "Event",
    "Evidence",
    "FieldProblem",
    "Firing",
    "FrozenSet",
    "Health",
    "Index",
    "IndexVersion",
    "Item",
    "Job",
    "JobCancelled",
    "JobFailed",
    "Later",
    "ListedSet",
    "Log",
    "MetricInfo",
    "MetricScores",
    "MetricSums",
    "Model",
    "NoAnswer",
    "NoKey",
    "NoScore",
    "NotAllowed",
    "NotFound",
    "NotStarted",
    "OldServer",
    "Outcome",
    "Pair",
    "Parameter",
    "Pending",
    "Posted",
    "Problem",
    "ProblemCode",
    "Published",
    "Purpose",
    "QueueFull",
    "Rater",
    "RaterVersion",
    "Ratings",
    "Ready",
    "RefaugError",
    "Reference",
    "ReferenceSet",
    "ReferenceText",
    "ReferencedItem",
    "References",
    "ReplyScore",
    "Resampling",
    "Retrieval",
    "Retry",
    "Reward",
    "Rows",
    "Schedule",
    "ScoredItem",
    "ScoredSet",
    "Scorer",
    "Scores",
    "ServerFault",
    "Stream",
    "SystemScores",
    "TimedOut",
    "TooMany",
    "Turn",
    "Unavailable",
    "Usage",
    "Versions",
    "Waiting",
    "Withdrawal",
    "Withdrawn",
    "WrongPurpose",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
