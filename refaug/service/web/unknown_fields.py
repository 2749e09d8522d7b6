"""Fields of a body that nothing looks at: they are named, with the field that was probably meant.

An unknown field of an item is no error, since items may carry notes; but where a request is refused, it is often the
reason: a `"reference"` leaves an item without a gold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, get_args, get_origin

from pydantic import BaseModel

from refaug.core.text.name_suggestions import suggestion
from refaug.evaluation.tables.item_fields import ITEM_FIELDS, UnusedField, unused_fields

_ANSWERED: Final = ("evidence", "no_reply")  # added to items by answers of /v1/references and /v1/replies
_KNOWN: Final = frozenset({*ITEM_FIELDS, *_ANSWERED})
_MAX_NAMED: Final = 10  # fields that are listed by name


@dataclass(frozen=True, kw_only=True)
class UnknownItemFields:
    """The fields that no item or no reference has, each with the place of the first item of the request that has it."""

    first_places: Sequence[tuple[int, UnusedField]] = ()

    @classmethod
    def of(cls, posted_items: object) -> Self:
        """Collect the fields of the items of a body, as far as these are items."""
        fields = dict[tuple[bool, str], tuple[int, UnusedField]]()
        for place, posted_item in enumerate(posted_items if isinstance(posted_items, list) else ()):
            for unused in unused_fields(posted_item, _KNOWN) if isinstance(posted_item, dict) else ():
                fields.setdefault(unused.key, (place, unused))
        return cls(first_places=tuple(fields.values()))

    @property
    def warnings(self) -> Iterator[str]:
        """A warning for each field, the first ones by name: what commands say, too."""
        for _, unused in self.first_places[:_MAX_NAMED]:
            yield unused.warning
        if len(self.first_places) > _MAX_NAMED:
            yield f"and {len(self.first_places) - _MAX_NAMED:,} more fields are not used"

    def as_json(self) -> list[dict[str, str]]:
        """Return the first fields as problem documents list them."""
        return [
            {"field": f"items[{place}].{unused.at}", "message": unused.fault}
            for place, unused in self.first_places[:_MAX_NAMED]
        ]

    @property
    def in_words(self) -> str:
        """The first field as the end of a message; empty where every field is known."""
        first = next(iter(self.as_json()), None)
        return "" if first is None else f"; {first['field']}: {first['message']}"


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
