"""The one decoder of options: it enforces names, types and limits for every face, constructors included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from refaug.core.errors import Usage
from refaug.core.options.describing import OptionField, options_by_spelling, options_of
from refaug.core.options.kinds import Kind, ListKind, MapKind, WrongValue, shown
from refaug.core.text.messages import MOST_SUGGESTIONS, suggestion

T = TypeVar("T")
_MAX_SHOWN: Final = 5


@dataclass(frozen=True, kw_only=True)
class OptionFault:
    """What is wrong with one option."""

    field: str  # as bodies and keywords spell it, such as `settings.k`
    message: str


class BadOptions(Usage):
    """Options that an operation does not have, or that are out of their limits."""

    def __init__(self, faults: Sequence[OptionFault], *, remedy: str = "") -> None:
        self.faults = tuple(faults)
        more = f"; and {len(faults) - _MAX_SHOWN} more" if len(faults) > _MAX_SHOWN else ""
        words = "; ".join(f"{fault.field}: {fault.message}" for fault in faults[:_MAX_SHOWN])
        super().__init__(f"{words}{more}", remedy=remedy)
        self.field = faults[0].field

    def spelled(self, spell: Callable[[str], str]) -> BadOptions:
        """Return the same error with the options as a face spells them."""
        return BadOptions([replace(fault, field=spell(fault.field)) for fault in self.faults])


class Options:
    """A base of frozen dataclasses of options: every field is checked when one is made, then `check` is called.

    `stated` are the fields that the caller named, as against those with their defaults; where a constructor was
    called, those that differ from their defaults.
    """

    _stated: ClassVar[frozenset[str] | None] = None

    def __post_init__(self) -> None:
        if self._stated is None:
            self._read_fields()
        self.check()

    def _read_fields(self) -> None:
        faults = list[OptionFault]()
        for option in options_of(type(self)):
            value = getattr(self, option.name)
            if value is option.default:
                continue
            try:
                object.__setattr__(self, option.name, option.kind.read(value))
            except WrongValue as wrong:
                faults += _faults(option, wrong)
        if faults:
            raise BadOptions(faults)

    @classmethod
    def read_group(cls, value: Any) -> Self:
        """Return the options that an object inside other options spells; WrongValue with every faulty place."""
        if not isinstance(value, Mapping):
            raise WrongValue(f"{shown(value)} is not an object")
        try:
            return decode(cls, value)
        except BadOptions as error:
            raise WrongValue(places=[(f".{fault.field}", fault.message) for fault in error.faults]) from None
        except Usage as error:
            message = f"{error.without_field} ({error.remedy})" if error.remedy else error.without_field
            raise WrongValue(places=[(f".{error.field}" if error.field else "", message)]) from None

    def check(self) -> None:
        """Raise Usage, with the field, where options do not go together."""

    @property
    def stated(self) -> frozenset[str]:
        """The names of the fields that the caller named."""
        if self._stated is not None:
            return self._stated
        return frozenset(
            option.name for option in options_of(type(self)) if getattr(self, option.name) != option.default
        )


def decode(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the options with these values; BadOptions names every unknown, missing and faulty one of them."""
    by_spelling = options_by_spelling(kind)
    unknown = [str(name) for name in values if name not in by_spelling]
    meant = [suggestion(name, by_spelling) for name in unknown[:MOST_SUGGESTIONS]]
    faults = [
        OptionFault(field=name, message=f"there is no such option{hint}")
        for name, hint in zip_longest(unknown, meant, fillvalue="")
    ]
    read = dict[str, Any]()
    for spelling, option in by_spelling.items():
        if spelling in values:
            try:
                read[option.name] = option.kind.read(values[spelling])
            except WrongValue as wrong:
                faults += _faults(option, wrong)
        elif option.is_required:
            faults.append(OptionFault(field=spelling, message="it is missing"))
    if faults:
        raise BadOptions(faults, remedy=f"options: {', '.join(by_spelling)}" if by_spelling else "")
    return options_with(kind, read)


def options_with(kind: type[T], read: Mapping[str, Any]) -> T:
    """Return the options with these values, which have been read; Usage where they do not go together."""
    options = object.__new__(kind)
    object.__setattr__(options, "_stated", frozenset(read))  # before it is made: `check` asks
    options.__init__(**read)  # type: ignore[misc]
    return options


def _faults(option: OptionField, wrong: WrongValue) -> list[OptionFault]:
    return [OptionFault(field=f"{option.spelling}{place}", message=message) for place, message in wrong.places]


def from_texts(kind: type[T], texts: Mapping[str, Any]) -> T:
    """Return the options that texts of a command line spell: by field, a text, a list of texts, or a flag."""
    values, faults = dict[str, Any](), list[OptionFault]()
    for option in options_of(kind):
        if option.name in texts:
            try:
                values[option.spelling] = spelled(option.kind, texts[option.name])
            except WrongValue as wrong:
                faults += _faults(option, wrong)
    if faults:
        raise BadOptions(faults)
    return decode(kind, values)


def spelled(kind: Kind[Any], text: Any) -> Any:
    """Return the value that a text, or each of several texts, spells; flags and groups stay."""
    if isinstance(text, str):
        return kind.read_text(text)
    if isinstance(kind, MapKind):
        return kind.read_texts(text)
    return [spelled(kind.element, element) for element in text] if isinstance(kind, ListKind) else text


def as_values(options: Any) -> dict[str, Any]:
    """Return options as the values that `decode` reads back: lists, texts and objects, as JSON has them."""
    return {option.spelling: _as_value(getattr(options, option.name)) for option in options_of(type(options))}


def _as_value(value: Any) -> Any:
    if isinstance(value, Options):  # a group: what was not stated stays so, since some may be stated only with others
        stated = [option for option in options_of(type(value)) if option.name in value.stated]
        return {option.spelling: _as_value(getattr(value, option.name)) for option in stated}
    if isinstance(value, tuple):
        return [_as_value(element) for element in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    return value.value if isinstance(value, Enum) else value


# ── Records that are made of others: options become settings, and sizes configurations, by the names of fields ────────


AnyRecord = TypeVar("AnyRecord")


def made_of(record_type: type[AnyRecord], source: object, **more: Any) -> AnyRecord:
    """Return a record with the fields that another one has by the same names, and these."""
    named = (field.name for field in fields(record_type) if field.init)  # type: ignore[arg-type]  # of a dataclass
    return record_type(**{name: getattr(source, name) for name in named if hasattr(source, name)} | more)
