"""Where each operation is defined: it is imported when it is needed, so that help stays quick."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from refaug.core.errors import BadInput
from refaug.core.text.messages import suggestion
from refaug.operations.operation import Operation

OPERATIONS: Final[Mapping[str, str]] = {
    "ingest": "refaug.operations.logs.ingest_log:IngestLog",
    "index-build": "refaug.operations.build_index:BuildIndex",
    "index-update": "refaug.operations.update_index:UpdateIndex",
    "index-compact": "refaug.operations.compact_index:CompactIndex",
    "index-encode": "refaug.operations.encode_index:EncodeIndex",
    "vectors": "refaug.operations.train_vectors:TrainVectors",
    "replies": "refaug.operations.bots.reply_to_items:ReplyToItems",
    "self-play": "refaug.extras.conversations.operations.play_conversations:PlayConversations",
    "rater-train": "refaug.operations.training.train_rater:TrainRater",
    "erase": "refaug.operations.logs.erase:Erase",
    "nightly": "refaug.operations.logs.run_night:RunNight",
    "references": "refaug.operations.references.find_references:FindReferences",
    "rate": "refaug.operations.references.rate_candidates:RateCandidates",
    "freeze": "refaug.operations.references.freeze_set:FreezeSet",
    "score": "refaug.operations.score:Score",
    "meta": "refaug.operations.agreement:MeasureAgreement",
    "judge-conversations": "refaug.extras.conversations.operations.judge_conversations:JudgeConversations",
    "hybrid-fit": "refaug.extras.conversations.operations.fit_hybrid:FitHybrid",
    "gc": "refaug.operations.remove_versions:RemoveVersions",
}


def find_operation(name: str) -> type[Operation]:
    """Return the operation of this name; BadInput where there is none."""
    if name not in OPERATIONS:
        remedy = f"one of: {', '.join(OPERATIONS)}"
        raise BadInput(f"there is no operation {name!r}{suggestion(name, OPERATIONS)}", remedy=remedy)
    module, _, kind = OPERATIONS[name].partition(":")
    found: type[Operation] = getattr(import_module(module), kind)
    return found
