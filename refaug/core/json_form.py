"""Records as JSON: one way from dataclasses to the objects, lists and texts that answers and files are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import singledispatch
from typing import Any, Final

# metadata of a field that JSON has only where it is not its default
OPTIONAL: Final[Mapping[str, Any]] = {"json_optional": True}
_NAME: Final = "json_name"


def named(name: str) -> Mapping[str, Any]:
    """Return the metadata of a field that JSON has under another name."""
    return {_NAME: name}


@singledispatch
def json_form(content: object) -> Any:
    """Return values as JSON has them: records by field, enums by value; another form of a type is registered for it."""
    if is_dataclass(content) and not isinstance(content, type):
        return _of_record(content)
    if isinstance(content, Mapping):
        return {str(json_form(name)): json_form(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [json_form(part) for part in content]
    return content.value if isinstance(content, Enum) else content


def _of_record(record: Any) -> dict[str, object]:
    members = ((field, getattr(record, field.name)) for field in fields(record))
    return {
        field.metadata.get(_NAME, field.name): json_form(content)
        for field, content in members
        if content is not field.default or "json_optional" not in field.metadata
    }
