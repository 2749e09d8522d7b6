"""The fields of items and of their references in test files, and the fields that nothing looks at.

An unknown field is no error, since items and references may carry notes; but it is often a typing error, so messages
name it with the field that was probably meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.text.messages import suggestion

ITEM_FIELDS: Final = (
    "id",
    "utterance",
    "turns",
    "references",
    "replies",
    "ratings",
    "scale",
    "dialogue",
    "time",
    "exclude",
    "excluded",  # these, the note and the provenance are added by `refaug sets references`
    "excluded_references",
    "note",
    "provenance",
    "reply_provenance",  # this and reply_ms are added by `refaug bots reply`
    "reply_ms",
)
REFERENCE_FIELDS: Final = (
    "text",
    "source",
    "weight",
    "similarity",
    "rating",
    "ratings",
    "scale",
    "unused",
    "utterance",
)
# What a search says of a retrieved reference; it stays with the reference.
RETRIEVED_FIELDS: Final = ("rank", "log", "index", "pair", "dialogue", "utterance", "speaker", "time", "count")
_OF_REFERENCES: Final = frozenset({*REFERENCE_FIELDS, *RETRIEVED_FIELDS})
_LONGEST: Final = 60  # characters of the name of a field in a message


@dataclass(frozen=True, kw_only=True)
class UnusedField:
    """A field that no item has, or no reference of an item: its name, and the reference that has it."""

    name: str
    reference: int | None = None  # the place of the reference; None for a field of the item

    @property
    def key(self) -> tuple[bool, str]:
        """What the field is called in messages that name each field once."""
        return self.reference is not None, self.name

    @property
    def at(self) -> str:
        """The place of the field in the item."""
        of_reference = "" if self.reference is None else f"references[{self.reference}]."
        return f"{of_reference}{self.name[:_LONGEST]}"

    @property
    def suggestion(self) -> str:
        """The field that was probably meant, as the end of a message; empty where none is like it."""
        return suggestion(self.name, ITEM_FIELDS if self.reference is None else REFERENCE_FIELDS)

    @property
    def warning(self) -> str:
        """What commands and answers say of the field."""
        of_reference = "" if self.reference is None else " of references"
        return f"field {self.name[:_LONGEST]!r}{of_reference} is not used{self.suggestion}"

    @property
    def fault(self) -> str:
        """What a refused request says of the field."""
        return f"no {'item' if self.reference is None else 'reference'} has this field{self.suggestion}"


def unused_fields(values: Mapping[Any, Any], names: frozenset[str] = frozenset(ITEM_FIELDS)) -> Iterator[UnusedField]:
    """Yield the fields of an item that are not in `names`, then such fields of its references."""
    for name in values:
        if name not in names:
            yield UnusedField(name=str(name))
    references = values.get("references")
    for place, reference in enumerate(references if isinstance(references, list | tuple) else ()):
        if not isinstance(reference, dict) or reference.keys() <= _OF_REFERENCES:
            continue
        for name in reference:
            if name not in _OF_REFERENCES:
                yield UnusedField(name=str(name), reference=place)
