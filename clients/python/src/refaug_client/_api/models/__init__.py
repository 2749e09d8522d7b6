"""The content of answers, as frozen dataclasses: typed, in the order sent, and with everything that came.

The main names:

- `Scores`: scores of systems, with intervals and comparisons
- `References`: the references of items
- `Job`: a job and its state.
"""

from __future__ import annotations

from .access import AuditEntry, Key, NewKey, OwnKey
from .artefacts import Index, IndexVersion, Published, Rater, RaterVersion
from .base import Model, Rows, WrongType, describe_kind, record, shorten, to_plain
from .evaluations import (
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
from .jobs import ENDED_STATES, Firing, Job, Schedule
from .logs import BadDialogue, Ingest, Log, Posted, Waiting
from .references import ExcludedReference, Ratings, Reference, ReferencedItem, References
from .replies import (
    BotReplies,
    ConversationScore,
    DialogueReplies,
    DialogueReply,
    HybridBot,
    HybridScores,
    PutBot,
    RepliedItem,
    StoredBot,
)
from .scored_item import ScoredItem
from .scores import (
    Comparison,
    Copies,
    MetricInfo,
    MetricScores,
    MetricSums,
    Parameter,
    ReplyScore,
    ReplyScores,
    Resampling,
    ScoredSet,
    Scores,
    SystemScores,
    Verification,
    VerifiedPart,
)
from .server import FieldProblem, Health, ProblemCode, Ready, Versions
from .sets import Bin, Evidence, FrozenSet, ListedSet, ReferenceSet, Withdrawal

__all__ = [
    "ENDED_STATES",
    "AuditEntry",
    "BadDialogue",
    "Bin",
    "BotReplies",
    "Comparison",
    "ConversationScore",
    "Copies",
    "DialogueReplies",
    "DialogueReply",
    "Evaluation",
    "EvaluationComparison",
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
    "Index",
    "IndexVersion",
    "Ingest",
    "Job",
    "Key",
    "ListedSet",
    "Log",
    "MetricInfo",
    "MetricScores",
    "MetricSums",
    "Model",
    "NewKey",
    "OwnKey",
    "Parameter",
    "Posted",
    "ProblemCode",
    "Published",
    "PutBot",
    "Rater",
    "RaterVersion",
    "Ratings",
    "Ready",
    "Reference",
    "ReferenceSet",
    "ReferencedItem",
    "References",
    "RepliedItem",
    "ReplyNote",
    "ReplyScore",
    "ReplyScores",
    "Resampling",
    "Rows",
    "Schedule",
    "ScorePoints",
    "ScoredItem",
    "ScoredReplies",
    "ScoredReply",
    "ScoredSet",
    "Scores",
    "StoredBot",
    "SystemScores",
    "Upload",
    "UploadList",
    "Verification",
    "VerifiedPart",
    "Versions",
    "Waiting",
    "Withdrawal",
    "WrongType",
    "describe_kind",
    "record",
    "shorten",
    "to_plain",
]
