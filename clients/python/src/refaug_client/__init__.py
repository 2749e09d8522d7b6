"""The client of refaug: how good a reply is, when many different replies would have been fine.

The main names:

- `Client`, or `AsyncClient`: begin here
- `Scorer`: scores while a model trains
- `Reward`: scores for reinforcement learning
- `RefaugError`: every error.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._api.items import Candidate, Dialogue, Item, Pair, Purpose, ReferenceText, Turn
from ._api.models.artefacts import Artefact, ArtefactVersion, BadDialogue, Ingest, Log, Posted, Published, Waiting
from ._api.models.base import Model, Rows
from ._api.models.evaluations import (
    Evaluation,
    EvaluationComparison,
    FilePreview,
    FullReply,
    ReplyNote,
    ScoredReplies,
    ScoredReply,
    ScorePoints,
    Upload,
    UploadList,
)
from ._api.models.jobs import Firing, Job, Schedule
from ._api.models.references import ExcludedReference, Ratings, Reference, ReferencedItem, References
from ._api.models.replies import BotReplies, ConversationScore, HybridBot, HybridScores, RepliedItem
from ._api.models.scores import (
    Comparison,
    Copies,
    MetricInfo,
    MetricScores,
    MetricSums,
    Parameter,
    ReplyScore,
    Resampling,
    ScoredItem,
    ScoredSet,
    Scores,
    SystemScores,
    Verification,
    VerifiedPart,
)
from ._api.models.server import (
    AuditEntry,
    FieldProblem,
    Health,
    Key,
    NewKey,
    OwnKey,
    ProblemCode,
    Ready,
    ServerFigures,
    Versions,
)
from ._api.models.sets import Bin, Evidence, FrozenSet, ListedSet, ReferenceSet, Withdrawal
from ._api.retrieval import Retrieval
from ._core.errors import (
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
    Problem,
    QueueFull,
    RefaugError,
    ServerFault,
    TimedOut,
    TooMany,
    TooManyCopies,
    Unavailable,
    Usage,
    Withdrawn,
    WrongPurpose,
)
from ._http.settings import Retry
from ._jobs.following import Event
from ._threads import Client, Stream
from ._version import VERSION

if TYPE_CHECKING:
    from ._asyncio import AsyncClient, AsyncStream
    from ._scorer.pending import Counts, Outcome, Pending
    from ._scorer.rewards import Reward
    from ._scorer.scorer import Scorer

__version__ = VERSION

# What a script that scores a file never needs is imported on first use.
_LATER = {
    "AsyncClient": "_asyncio",
    "AsyncStream": "_asyncio",
    "Counts": "_scorer.pending",
    "Outcome": "_scorer.pending",
    "Pending": "_scorer.pending",
    "Reward": "_scorer.rewards",
    "Scorer": "_scorer.scorer",
}

__all__ = [
    "Artefact",
    "ArtefactVersion",
    "AsyncClient",
    "AsyncStream",
    "AuditEntry",
    "BadAnswer",
    "BadDialogue",
    "BadInput",
    "Bin",
    "BotReplies",
    "Candidate",
    "CannotConnect",
    "Client",
    "Comparison",
    "Conflict",
    "ConnectionLost",
    "ConversationScore",
    "Copies",
    "Counts",
    "Dialogue",
    "Evaluation",
    "EvaluationComparison",
    "Event",
    "Evidence",
    "ExcludedReference",
    "FieldProblem",
    "FilePreview",
    "Firing",
    "FrozenSet",
    "FullReply",
    "Health",
    "HybridBot",
    "HybridScores",
    "Ingest",
    "Item",
    "Job",
    "JobCancelled",
    "JobFailed",
    "Key",
    "Later",
    "ListedSet",
    "Log",
    "MetricInfo",
    "MetricScores",
    "MetricSums",
    "Model",
    "NewKey",
    "NoAnswer",
    "NoKey",
    "NoScore",
    "NotAllowed",
    "NotFound",
    "NotStarted",
    "Outcome",
    "OwnKey",
    "Pair",
    "Parameter",
    "Pending",
    "Posted",
    "Problem",
    "ProblemCode",
    "Published",
    "Purpose",
    "QueueFull",
    "Ratings",
    "Ready",
    "RefaugError",
    "Reference",
    "ReferenceSet",
    "ReferenceText",
    "ReferencedItem",
    "References",
    "RepliedItem",
    "ReplyNote",
    "ReplyScore",
    "Resampling",
    "Retrieval",
    "Retry",
    "Reward",
    "Rows",
    "Schedule",
    "ScorePoints",
    "ScoredItem",
    "ScoredReplies",
    "ScoredReply",
    "ScoredSet",
    "Scorer",
    "Scores",
    "ServerFault",
    "ServerFigures",
    "Stream",
    "SystemScores",
    "TimedOut",
    "TooMany",
    "TooManyCopies",
    "Turn",
    "Unavailable",
    "Upload",
    "UploadList",
    "Usage",
    "Verification",
    "VerifiedPart",
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
    exported = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = exported
    return exported


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
