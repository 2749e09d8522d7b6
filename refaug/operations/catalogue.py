"""Where each operation is defined: it is imported when it is needed, so that help stays quick."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from refaug.core.errors import BadInput
from refaug.core.text.messages import suggestion
from refaug.operations.operation import Operation

OPERATIONS: Final[Mapping[str, str]] = {
    "ingest": "logs.ingest_log:IngestLog",
    "index-build": "build_index:BuildIndex",
    "index-update": "update_index:UpdateIndex",
    "index-compact": "compact_index:CompactIndex",
    "index-encode": "encode_index:EncodeIndex",
    "vectors": "train_vectors:TrainVectors",
    "replies": "bots.reply_to_items:ReplyToItems",
    "self-play": "bots.play_conversations:PlayConversations",
    "rater-train": "training.train_rater:TrainRater",
    "erase": "logs.erase:Erase",
    "nightly": "logs.run_night:RunNight",
    "references": "references.find_references:FindReferences",
    "rate": "references.rate_candidates:RateCandidates",
    "freeze": "references.freeze_set:FreezeSet",
    "score": "score:Score",
    "meta": "agreement:MeasureAgreement",
    "judge-conversations": "bots.judge_conversations:JudgeConversations",
    "hybrid-fit": "bots.fit_hybrid:FitHybrid",
    "gc": "remove_versions:RemoveVersions",
}


def find_operation(name: str) -> type[Operation]:
    """Return the operation of this name; BadInput where there is none."""
    if name not in OPERATIONS:
        remedy = f"one of: {', '.join(OPERATIONS)}"
        raise BadInput(f"there is no operation {name!r}{suggestion(name, OPERATIONS)}", remedy=remedy)
    module, _, kind = OPERATIONS[name].partition(":")
    found: type[Operation] = getattr(import_module(f"refaug.operations.{module}"), kind)
    return found
