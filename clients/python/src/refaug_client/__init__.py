"""A client of refaug: how good a reply is, when many different replies would have been fine."""

from __future__ import annotations

from ._async_client import AsyncClient
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
from ._retry import Retry
from ._version import VERSION

__version__ = VERSION

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "BadInput",
    "CannotConnect",
    "Client",
    "Conflict",
    "ConnectionLost",
    "JobCancelled",
    "JobFailed",
    "Later",
    "NoAnswer",
    "NoKey",
    "NoScore",
    "NotAllowed",
    "NotFound",
    "NotStarted",
    "OldServer",
    "Problem",
    "QueueFull",
    "RefaugError",
    "Retry",
    "ServerFault",
    "TimedOut",
    "TooMany",
    "Unavailable",
    "Usage",
    "Withdrawn",
    "WrongPurpose",
    "__version__",
]
