"""The order of any job: reading one, its metrics, and the resources that its job writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from refaug.core.errors import BadInput
from refaug.service.jobs.orders.evaluation_orders import MetaJob, ScoreJob
from refaug.service.jobs.orders.index_orders import GcJob, IndexBuildJob, IndexCompactJob, IndexUpdateJob
from refaug.service.jobs.orders.log_orders import EraseJob, IngestJob
from refaug.service.jobs.orders.nightly_order import NightlyJob
from refaug.service.jobs.orders.set_orders import FreezeJob
from refaug.service.jobs.orders.training_orders import RaterTrainJob, VectorsJob

_MAX_SHOWN: Final = 5

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
            f"the order of a job: {'; '.join(faults[:_MAX_SHOWN])}{more}", remedy=f"kinds are: {', '.join(KINDS)}"
        ) from None


def _describe_fault(fault: Mapping[str, Any]) -> str:
    """Return place and message of a fault; the kind of job, which pydantic puts first, is left out."""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"][1:]).lstrip(".")
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def metrics_in(order: JobOrder) -> list[str]:
    """Return the metrics that an order names."""
    match order:
        case MetaJob():
            return [*order.metrics, *([order.baseline] if order.baseline is not None else [])]
        case NightlyJob() | ScoreJob():
            return list(order.metrics)
    return []


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
        case ScoreJob() | MetaJob():
            order_hash = hashlib.sha256(order.model_dump_json().encode()).hexdigest()
            return (f"{order.kind}/{order_hash[:16]}",)
