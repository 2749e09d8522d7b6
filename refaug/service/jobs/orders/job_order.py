"""The order of any job: reading one, its metrics, and the resources that its job writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

from pydantic import Field, TypeAdapter, ValidationError

from refaug.core.errors import BadInput
from refaug.core.text.name_suggestions import suggestion
from refaug.service.jobs.orders.bot_orders import RepliesJob, SelfPlayJob
from refaug.service.jobs.orders.conversation_orders import HybridFitJob, JudgeConversationsJob
from refaug.service.jobs.orders.evaluation_orders import MetaJob, ScoreJob
from refaug.service.jobs.orders.index_orders import GcJob, IndexBuildJob, IndexCompactJob, IndexUpdateJob
from refaug.service.jobs.orders.log_orders import EraseJob, IngestJob
from refaug.service.jobs.orders.nightly_order import NightlyJob
from refaug.service.jobs.orders.set_orders import FreezeJob
from refaug.service.jobs.orders.training_orders import RaterTrainJob, VectorsJob

_MAX_SHOWN: Final = 5
_LONGEST_SHOWN: Final = 40

JobOrder = Annotated[
    IngestJob
    | VectorsJob
    | IndexBuildJob
    | IndexUpdateJob
    | IndexCompactJob
    | RaterTrainJob
    | FreezeJob
    | ScoreJob
    | MetaJob
    | RepliesJob
    | SelfPlayJob
    | JudgeConversationsJob
    | HybridFitJob
    | EraseJob
    | NightlyJob
    | GcJob,
    Field(discriminator="kind"),
]
_ORDERS: Final = TypeAdapter[JobOrder](JobOrder)
KINDS: Final = (
    "ingest",
    "vectors",
    "index-build",
    "index-update",
    "index-compact",
    "rater-train",
    "freeze",
    "score",
    "meta",
    "replies",
    "self-play",
    "judge-conversations",
    "hybrid-fit",
    "erase",
    "nightly",
    "gc",
)


def parse_order(values: Mapping[str, Any]) -> JobOrder:
    """Return the order in JSON, or raise BadInput with the names of its faulty fields."""
    try:
        return _ORDERS.validate_python(dict(values))
    except ValidationError as error:
        faults = [_describe_fault(one) for one in error.errors()]
        more = f"; and {len(faults) - _MAX_SHOWN} more" if len(faults) > _MAX_SHOWN else ""
        raise BadInput(
            f"the order of a job: {'; '.join(faults[:_MAX_SHOWN])}{more}", remedy=_remedy(values.get("kind"))
        ) from None


def _describe_fault(fault: Mapping[str, Any]) -> str:
    """Return place and message of a fault; the kind of job, which pydantic puts first, is left out."""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"][1:]).lstrip(".")
    message = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return "it has no kind" if fault["type"] == "union_tag_not_found" else f"kind: {_unknown_kind(fault['ctx'])}"
    if fault["type"] == "string_pattern_mismatch":
        message = f"{str(fault['input'])[:_LONGEST_SHOWN]!r} does not have the form {fault['ctx']['pattern']}"
    return f"{place}: {message}" if place else message


def _unknown_kind(context: Mapping[str, Any]) -> str:
    name = str(context["tag"])[:_LONGEST_SHOWN]
    return f"there is no kind of job {name!r}{suggestion(name, KINDS)}"


def _remedy(kind: object) -> str:
    """Return the fields of the kind of job, or the kinds where there is no such kind."""
    for order in get_args(get_args(JobOrder)[0]):
        if get_args(order.model_fields["kind"].annotation) == (kind,):
            return f"{kind} has the fields {', '.join(name for name in order.model_fields if name != 'kind')}"
    return f"kinds are: {', '.join(KINDS)}"


def metrics_in(order: JobOrder) -> list[str]:
    """Return the metrics that an order names."""
    match order:
        case MetaJob():
            return [*order.metrics, *([order.baseline] if order.baseline is not None else [])]
        case NightlyJob() | ScoreJob() | JudgeConversationsJob() | HybridFitJob():
            return list(order.metrics)
    return []


def bots_in(order: JobOrder) -> list[str]:
    """Return the specifications of the bots that an order names; a name alone is that of a stored bot."""
    match order:
        case RepliesJob():
            texts = list(order.bots.values())
        case SelfPlayJob():
            texts = [*order.bots, *([order.partner] if order.partner is not None else [])]
        case _:
            texts = []
    return [text if ":" in text else f"bot:{text}" for text in texts]


def resources_of(order: JobOrder) -> tuple[str, ...]:
    """Return what a job writes: no two jobs that share a resource run at the same time."""
    match order:
        case IngestJob() | EraseJob():
            return (f"log/{order.log}",)
        case NightlyJob():
            return (f"log/{order.log}", f"index/{order.index}")
        case VectorsJob():
            return (f"vectors/{order.name or order.logs[0]}",)
        case IndexBuildJob():
            return (f"index/{order.index or order.logs[0]}",)
        case IndexUpdateJob() | IndexCompactJob():
            return (f"index/{order.index}",)
        case RaterTrainJob():
            return (f"rater/{order.rater or order.logs[0]}",)
        case GcJob():
            return (f"{order.artefact}/{order.name}",)
        case FreezeJob():
            return (f"items/{order.items or order.source}",)
        case SelfPlayJob() | HybridFitJob():
            return (f"{order.kind.removesuffix('-fit')}/{order.name}",)
        case ScoreJob() | MetaJob() | RepliesJob() | JudgeConversationsJob():
            order_hash = hashlib.sha256(order.model_dump_json().encode()).hexdigest()
            return (f"{order.kind}/{order_hash[:16]}",)
