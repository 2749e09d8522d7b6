"""The fields of a dataclass of options, with their kinds, texts and defaults, read from its annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from inspect import get_annotations
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from refaug.core.options import declaring, kinds
from refaug.core.options.declaring import Length
from refaug.core.options.kinds import (
    AnyKind,
    BoolKind,
    ChoiceKind,
    Kind,
    ListKind,
    MapKind,
    MomentKind,
    NumberKind,
    PathKind,
    SizeKind,
    TextKind,
    UnionKind,
)

T = TypeVar("T")
_DESCRIBED: Final = dict[Any, "tuple[tuple[OptionField, ...], Mapping[str, OptionField]]"]()


@dataclass(frozen=True, kw_only=True)
class GroupKind(Kind[Any]):
    """A dataclass of options inside another one: an object in bodies, more flags of a command."""

    group: type[Any]

    def read(self, value: Any) -> Any:
        """Return the dataclass; the faults of all of its fields are told."""
        if isinstance(value, self.group):
            return value
        return self.group.read_group(value)


@dataclass(frozen=True, kw_only=True)
class OptionField:
    """A field of a dataclass of options."""

    name: str  # of the field
    spelling: str  # in bodies and keywords
    doc: str
    kind: Kind[Any]
    default: Any = None
    of_job: str = ""  # what a command leaves out of the doc
    is_required: bool = False
    metavar: str | None = None
    argument: str | None = None  # what a command calls it that takes it by its place
    has_file: bool = False  # of a command, with a name a line
    has_flag: bool = True
    flag: str | None = None  # where it is not the name with dashes
    schema: Mapping[str, Any] | None = None
    signed: declaring.Signed | None = None
    panel: str | None = None  # the heading of a command's help
    is_rare: bool = False  # a long help leaves it out

    @property
    def group(self) -> type[Any] | None:
        """The dataclass whose fields stand in this one's place on a command line; None for a single value."""
        kinds = self.kind.kinds if isinstance(self.kind, UnionKind) else (self.kind,)
        return next((kind.group for kind in kinds if isinstance(kind, GroupKind)), None)


def options_of(kind: Any) -> tuple[OptionField, ...]:
    """Return the fields of a dataclass, in their order: those that it inherits come last."""
    return _described(kind)[0]


def options_by_spelling(kind: Any) -> Mapping[str, OptionField]:
    """Return the options as bodies and keywords spell them."""
    return _described(kind)[1]


def _described(kind: Any) -> tuple[tuple[OptionField, ...], Mapping[str, OptionField]]:
    if (described := _DESCRIBED.get(kind)) is None:
        hints = get_type_hints(kind, include_extras=True)
        order = list(dict.fromkeys(name for base in kind.__mro__ for name in get_annotations(base)))
        in_order = sorted(fields(kind), key=lambda field: order.index(field.name))
        options = tuple(
            _option(field, hints[field.name], _panel_of(kind, field.name)) for field in in_order if field.init
        )
        described = _DESCRIBED[kind] = options, {option.spelling: option for option in options}
    return described


def _panel_of(kind: Any, name: str) -> declaring.Panel | None:
    """Return the panel of a field: that of the nearest dataclass that declares it and has a panel."""
    panels = (vars(base).get("panel") for base in kind.__mro__ if name in get_annotations(base))
    return next((panel for panel in panels if panel is not None), None)


def _option(field: Field[Any], hint: Any, panel: declaring.Panel | None) -> OptionField:
    annotation, metadata = _without_metadata(hint)
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    named, metavar, schema = (
        _last(declaring.Named, metadata),
        _last(declaring.Metavar, metadata),
        _last(declaring.Schema, metadata),
    )
    return OptionField(
        name=field.name,
        spelling=named.name if named is not None else field.name,
        doc=doc.text if (doc := _last(declaring.Doc, metadata)) is not None else "",
        of_job=doc.of_job if doc is not None else "",
        kind=kind_of(annotation, metadata),
        default=None if default is MISSING else default,
        is_required=default is MISSING,
        metavar=metavar.text if metavar is not None else None,
        argument=argument.metavar if (argument := _last(declaring.Argument, metadata)) is not None else None,
        has_file=_last(declaring.Lines, metadata) is not None,
        has_flag=_last(declaring.NoFlag, metadata) is None,
        flag=flag.spelling if (flag := _last(declaring.Flag, metadata)) is not None else None,
        schema=schema.schema if schema is not None else None,
        signed=_last(declaring.Signed, metadata),
        panel=panel.title if panel is not None else None,
        is_rare=panel is not None and field.name in panel.rare,
    )


def _last(kind: type[T], metadata: Sequence[Any]) -> T | None:
    """Return what is annotated of one kind; the annotation nearest to the field counts."""
    return next((extra for extra in reversed(metadata) if isinstance(extra, kind)), None)


def _bound(limit: declaring.Ge | declaring.Gt | declaring.Le | declaring.Lt | None) -> float | None:
    return None if limit is None else limit.bound


def _without_metadata(hint: Any) -> tuple[Any, Sequence[Any]]:
    if get_origin(hint) is not Annotated:
        return hint, ()
    annotation, *metadata = get_args(hint)
    inner, more = _without_metadata(annotation)
    return inner, (*more, *metadata)


def kind_of(annotation: Any, metadata: Sequence[Any] = ()) -> Kind[Any]:
    """Return the kind of a type; limits in the metadata are those of its values, or of the list itself."""
    annotation, more = _without_metadata(annotation)
    metadata = (*more, *metadata)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        kinds = tuple(kind_of(part, metadata) for part in arguments if part is not types.NoneType)
        return UnionKind(kinds, has_none=types.NoneType in arguments)
    if origin is Literal:
        return ChoiceKind(arguments)
    length = _last(declaring.Length, metadata) or declaring.Length()
    if origin in (list, tuple, Sequence):
        is_distinct = _last(declaring.Distinct, metadata) is not None
        return ListKind(element=kind_of(arguments[0]), length=length, is_distinct=is_distinct)
    if origin in (dict, Mapping):
        names_files = _last(declaring.FileNames, metadata) is not None
        key, element = kind_of(arguments[0]), kind_of(arguments[1])
        return MapKind(key=key, element=element, length=length, names_files=names_files)
    if (value := _value_kind(annotation, metadata, length)) is not None:
        return value
    plain: dict[Any, Kind[Any]] = {bool: BoolKind(), datetime: MomentKind(), Path: PathKind(), Any: AnyKind()}
    if annotation in plain:
        return plain[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ChoiceKind(tuple(annotation))
    if is_dataclass(annotation) and isinstance(annotation, type):
        return GroupKind(group=annotation)
    assert annotation in plain, f"options have no kind for {annotation!r}"
    return AnyKind()


def _value_kind(annotation: Any, metadata: Sequence[Any], length: declaring.Length) -> Kind[Any] | None:
    """Return the kind of a text or number with its limits; None for another type."""
    if annotation is str:
        return TextKind(length=length, pattern=_last(declaring.Pattern, metadata))
    if annotation is int and _last(declaring.Size, metadata) is not None:
        least = _bound(_last(declaring.Ge, metadata))
        return SizeKind() if least is None else SizeKind(least=int(least))
    if annotation in (int, float):
        return NumberKind(
            is_whole=annotation is int,
            ge=_bound(_last(declaring.Ge, metadata)),
            gt=_bound(_last(declaring.Gt, metadata)),
            le=_bound(_last(declaring.Le, metadata)),
            lt=_bound(_last(declaring.Lt, metadata)),
        )
    return None


# ── Options as JSON schemas, for the OpenAPI document and the reference pages ─────────────────────────────────────────

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
        **({"description": _whole_doc(option)} if option.doc else {}),
        **({"default": _plain(option.default)} if has_default else {}),
    }


def _whole_doc(option: OptionField) -> str:
    return f"{option.doc.removesuffix('.')}; {option.of_job}." if option.of_job else option.doc


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
