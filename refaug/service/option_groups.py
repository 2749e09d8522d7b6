"""Options inside the models of bodies and orders: pydantic leaves them to the decoder of all faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from refaug.core.errors import Usage
from refaug.core.options.decoding import BadOptions, Options, as_values, decode
from refaug.core.options.json_schema import schema_of
from refaug.core.options.words import shown

T = TypeVar("T")


@dataclass(frozen=True)
class OptionGroup:
    """Annotated to a field: its object is decoded as these options, and documented under this title."""

    kind: type[Options]
    title: str

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read, serialization=core_schema.plain_serializer_function_ser_schema(as_values)
        )

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"allOf": [{**schema_of(self.kind), "title": self.title}]}  # the field has a description of its own

    def _read(self, value: Any) -> Options:
        if isinstance(value, self.kind):
            return value
        if not isinstance(value, dict):
            raise PydanticCustomError("option", "{message}", {"message": f"{shown(value)} is not an object"})
        return decoded(self.kind, value, self.title)


def decoded(kind: type[T], values: dict[str, Any], title: str, *path: str) -> T:
    """Return the options; pydantic's ValidationError has the place of each fault, below a path."""
    try:
        return decode(kind, values)
    except BadOptions as error:
        faults = [(fault.field, fault.message) for fault in error.faults]
    except Usage as error:
        faults = [(error.field, error.without_field)]
    details = [
        InitErrorDetails(
            type=PydanticCustomError("option", "{message}", {"message": message}),
            loc=(*path, *((field,) if field else ())),
            input=None,
        )
        for field, message in faults
    ]
    raise ValidationError.from_exception_data(title, details)
