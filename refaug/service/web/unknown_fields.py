"""Fields of a body that nothing looks at: they are named, with the field that was probably meant.

An unknown field of an item is no error, since items may carry notes; but where a request is refused, it is often the
reason: a `"reference"` leaves an item without a gold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel

from refaug.core.text.name_suggestions import suggestion
from refaug.evaluation.tables.item_fields import ITEM_FIELDS, UnusedField, unused_fields

_ANSWERED: Final = ("evidence", "no_reply")  # added to items by answers of /v1/references and /v1/replies
_KNOWN: Final = frozenset({*ITEM_FIELDS, *_ANSWERED})
_MAX_NAMED: Final = 10  # fields that are listed by name


# The place of the first item that has a field which no item, or no reference, has; with the field.
UnknownField = tuple[int, UnusedField]


def unknown_item_fields(posted_items: object) -> list[UnknownField]:
    """Return the unknown fields of the items of a body, as far as these are items."""
    fields = dict[tuple[bool, str], UnknownField]()
    for place, posted_item in enumerate(posted_items if isinstance(posted_items, list) else ()):
        for unused in unused_fields(posted_item, _KNOWN) if isinstance(posted_item, dict) else ():
            fields.setdefault(unused.key, (place, unused))
    return list(fields.values())


def unknown_field_warnings(unknown: Sequence[UnknownField]) -> list[str]:
    """Return a warning for each field, the first ones by name: what commands say, too."""
    more = [f"and {len(unknown) - _MAX_NAMED:,} more fields are not used"] if len(unknown) > _MAX_NAMED else []
    return [unused.warning for _, unused in unknown[:_MAX_NAMED]] + more


def unknown_field_problems(unknown: Sequence[UnknownField]) -> list[dict[str, str]]:
    """Return the first fields as problem documents list them."""
    return [{"field": f"items[{place}].{field.at}", "message": field.fault} for place, field in unknown[:_MAX_NAMED]]


def body_field_suggestion(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """Return which field was probably meant by the last part of a place in a body of this model."""
    *path, name = location
    inner: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str) and inner is not None:
            inner = _model_of_field(inner, part)
    return suggestion(str(name), _names(inner)) if inner is not None else ""


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_of_field(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model in a field, also in a list or beside null; None where there is none."""
    field = next((field for key, field in model.model_fields.items() if name in (key, field.alias)), None)
    return None if field is None else _model_in(field.annotation)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if get_origin(annotation) is Annotated:
        return _model_in(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_model_in(part) for part in get_args(annotation))
    return next((inner for inner in models if inner is not None), None)
