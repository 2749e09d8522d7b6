"""Options as JSON schemas, for the OpenAPI document and the reference pages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from refaug.core.options import kinds
from refaug.core.options.declaring import Length
from refaug.core.options.describing import GroupKind, OptionField, options_of

_PLAIN: Final[Mapping[type[Any], Mapping[str, Any]]] = {
    kinds.BoolKind: {"type": "boolean"},
    kinds.MomentKind: {"type": "string", "format": "date-time"},
    kinds.PathKind: {"type": "string"},
    kinds.SizeKind: {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]},
}


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the schema of a dataclass of options; those of its groups stand in it, under their titles."""
    options = options_of(kind)
    required = [option.spelling for option in options if option.is_required]
    return {
        "title": kind.__name__,
        "type": "object",
        "description": (kind.__doc__ or "").strip(),
        "properties": {option.spelling: property_of(option) for option in options},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def property_of(option: OptionField) -> dict[str, Any]:
    """Return the schema of a field."""
    schema = dict(option.schema) if option.schema is not None else _schema(option.kind)
    if "title" in schema:  # a group, whose own description stays beside that of the field
        schema = {"anyOf": [schema]}
    has_default = not option.is_required and _is_plain(option.default)
    return {
        **schema,
        **({"description": option.doc} if option.doc else {}),
        **({"default": _plain(option.default)} if has_default else {}),
    }


def _is_plain(default: Any) -> bool:
    return default is None or isinstance(default, bool | int | float | str | Enum | tuple)


def _plain(default: Any) -> Any:
    if isinstance(default, tuple):
        return [_plain(element) for element in default]
    return default.value if isinstance(default, Enum) else default


def _schema(kind: kinds.Kind[Any]) -> dict[str, Any]:
    match kind:
        case kinds.UnionKind():
            parts = [_schema(part) for part in kind.kinds] + ([{"type": "null"}] if kind.has_none else [])
            return parts[0] if len(parts) == 1 else {"anyOf": parts}
        case GroupKind():
            return schema_of(kind.group)
        case kinds.ChoiceKind():
            return {"type": "string", "enum": kind.spellings} if len(kind.choices) > 1 else {"const": kind.spellings[0]}
        case kinds.NumberKind():
            return {"type": "integer" if kind.is_whole else "number", **_bounds(kind)}
        case kinds.TextKind():
            pattern = {} if kind.pattern is None else {"pattern": f"^(?:{kind.pattern.expression.pattern})$"}
            return {"type": "string", **_length(kind.length, "Length"), **pattern}
        case kinds.ListKind():
            distinct = {"uniqueItems": True} if kind.is_distinct else {}
            return {"type": "array", "items": _schema(kind.element), **_length(kind.length, "Items"), **distinct}
        case kinds.MapKind():
            elements = {"additionalProperties": _schema(kind.element)}
            if isinstance(kind.key, kinds.ChoiceKind):
                elements["propertyNames"] = _schema(kind.key)
            return {"type": "object", **elements, **_length(kind.length, "Properties")}
    return dict(_PLAIN.get(type(kind), {}))


def _bounds(kind: kinds.NumberKind) -> Mapping[str, float]:
    bounds = {"minimum": kind.ge, "exclusiveMinimum": kind.gt, "maximum": kind.le, "exclusiveMaximum": kind.lt}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _length(length: Length, noun: str) -> dict[str, Any]:
    least = {f"min{noun}": length.least} if length.least else {}
    return least if length.most is None else {**least, f"max{noun}": length.most}
