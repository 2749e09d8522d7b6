"""Where each operation is defined: it is imported when it is needed, so that help stays quick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from refaug.core.errors import BadInput
from refaug.core.installation import OPERATIONS as ADDED
from refaug.core.installation import find, load, registered
from refaug.core.text.messages import suggestion
from refaug.operations.operation import Operation

OPERATIONS: Final[Mapping[str, str]] = {
    "ingest": "refaug.operations.logs:IngestLog",
    "index-build": "refaug.operations.indexes:BuildIndex",
    "index-update": "refaug.operations.indexes:UpdateIndex",
    "index-compact": "refaug.operations.indexes:CompactIndex",
    "index-encode": "refaug.operations.indexes:EncodeIndex",
    "vectors": "refaug.operations.train_vectors:TrainVectors",
    "replies": "refaug.operations.replies:ReplyToItems",
    "rater-train": "refaug.operations.training:TrainRater",
    "erase": "refaug.operations.logs:Erase",
    "nightly": "refaug.operations.logs:RunNight",
    "references": "refaug.operations.references:FindReferences",
    "rate": "refaug.operations.references:RateCandidates",
    "freeze": "refaug.operations.references:FreezeSet",
    "score": "refaug.operations.scoring_options:Score",
    "meta": "refaug.operations.agreement:MeasureAgreement",
    "gc": "refaug.operations.indexes:RemoveVersions",
}


def operation_names() -> tuple[str, ...]:
    """Return the names of all operations: those of extras stand last."""
    return (*OPERATIONS, *registered(ADDED))


def find_operation(name: str) -> type[Operation]:
    """Return the operation of this name; BadInput where there is none."""
    if name in OPERATIONS:
        operation: type[Operation] | None = load(name, OPERATIONS[name])
    else:
        operation = find(ADDED, name)
    if operation is None:
        names = operation_names()
        raise BadInput(f"there is no operation {name!r}{suggestion(name, names)}", remedy=f"one of: {', '.join(names)}")
    return operation
