"""The order of any job: reading one, its metrics, and the resources that its job writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from refaug.core import installation
from refaug.core.errors import BadInput
from refaug.core.options.describing import options_of, schema_of
from refaug.core.text.messages import suggestion
from refaug.operations.catalogue import find_operation
from refaug.operations.operation import Operation
from refaug.service.option_groups import decoded

_MAX_SHOWN: Final = 5
_LONGEST_SHOWN: Final = 40
EVALUATIONS: Final = ("score", "meta")
KINDS: Final = (
    "ingest",
    "vectors",
    "index-build",
    "index-update",
    "index-compact",
    "index-encode",
    "rater-train",
    "freeze",
    "score",
    "meta",
    "replies",
    "erase",
    "nightly",
    "gc",
    *installation.registered(installation.OPERATIONS),
)


class _OrderType:
    """How pydantic reads an order of any kind: operations by the decoder of all faces."""

    @staticmethod
    def __get_pydantic_core_schema__(_source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _read_order, serialization=core_schema.plain_serializer_function_ser_schema(lambda order: order.as_order())
        )

    @staticmethod
    def __get_pydantic_json_schema__(_schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"oneOf": [_operation_schema(name) for name in KINDS]}


def _operation_schema(name: str) -> dict[str, Any]:
    schema = schema_of(find_operation(name))
    kind = {"const": name, "description": "which job it is", "type": "string"}
    return {
        **schema,
        "properties": {"kind": kind, **schema["properties"]},
        "required": ["kind", *schema.get("required", ())],
    }


def _read_order(values: Any) -> Any:
    """Return the order in JSON; pydantic's ValidationError with every fault."""
    if isinstance(values, Operation):
        return values
    kind = values.get("kind") if isinstance(values, dict) else None
    if kind not in KINDS:
        raise PydanticCustomError("option", "{message}", {"message": _unknown_kind(kind)})
    fields = {name: setting for name, setting in values.items() if name != "kind"}
    return decoded(find_operation(kind), fields, kind, kind)


class _EvaluationType:
    """How pydantic reads an order of scores or of agreement."""

    @staticmethod
    def __get_pydantic_core_schema__(_source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_read_evaluation)

    @staticmethod
    def __get_pydantic_json_schema__(_schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"oneOf": [_operation_schema(name) for name in EVALUATIONS]}


def _read_evaluation(values: Any) -> Any:
    if isinstance(values, dict) and values.get("kind") in EVALUATIONS:
        return _read_order(values)
    message = f"an object was expected whose kind is one of: {', '.join(EVALUATIONS)}"
    raise PydanticCustomError("option", "{message}", {"message": message})


JobOrder = Annotated[Any, _OrderType]
EvaluationOrder = Annotated[Any, _EvaluationType]
_ORDERS: Final = TypeAdapter[Any](JobOrder)


def parse_order(values: Mapping[str, Any]) -> Any:
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
    return f"{place}: {fault['msg']}" if place else str(fault["msg"])


def _unknown_kind(kind: object) -> str:
    if kind is None:
        return "it has no kind"
    name = str(kind)[:_LONGEST_SHOWN]
    return f"kind: there is no kind of job {name!r}{suggestion(name, KINDS)}"


def _remedy(kind: object) -> str:
    """Return the fields of the kind of job, or the kinds where there is no such kind."""
    if isinstance(kind, str) and kind in KINDS:
        return f"{kind} has the fields {', '.join(option.spelling for option in options_of(find_operation(kind)))}"
    return f"kinds are: {', '.join(KINDS)}"


def metrics_in(order: Any) -> list[str]:
    """Return the metrics that an order names."""
    metrics: list[str] = order.metrics_named()
    return metrics


def bots_in(order: Any) -> list[str]:
    """Return the specifications of the bots that an order names; a name alone is that of a stored bot."""
    bots: list[str] = order.bots_named()
    return bots


def resources_of(order: Any) -> tuple[str, ...]:
    """Return what a job writes: no two jobs that share a resource run at the same time."""
    resources: tuple[str, ...] = order.resources()
    return resources
