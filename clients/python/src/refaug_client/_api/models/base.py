"""The base of all results: frozen dataclasses that read an object of an answer and keep all of it.

A class has the fields that this library knows. What a newer server adds is kept: `more` has it, and `to_dict()` is the
object as it came over the wire. Fields with a default may be missing; an answer without one of the others is refused.
"""

from __future__ import annotations

import copy
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable, ClassVar, NamedTuple, NoReturn, Optional, TypeVar, Union

from refaug_client._core.frames import make_frame

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Stand in for the decorator that only type checkers need."""
        return lambda decorator: decorator


K = TypeVar("K")
M = TypeVar("M", bound="Model")
T = TypeVar("T")
Read = Callable[[Any], Any]
_SHOWN = 3  # entries of a list or dict in a repr
_TEXT = 60  # characters of a text in a repr


class _Field(NamedTuple):
    name: str
    key: str  # what the wire calls it
    read: Optional[Read]  # None: the value is taken as it is
    default: Any


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[K]) -> type[K]:
    """Make a frozen dataclass whose methods `Model` has: generated for each class, they would be half of the import."""
    return dataclass(init=False, repr=False, eq=False)(cls)


class Model:
    """An object of an answer."""

    _wire: ClassVar[Optional[Mapping[str, Any]]] = None  # set on each object that came over the wire

    if not TYPE_CHECKING:

        def __init__(self, *positional: Any, **named: Any) -> None:
            known_fields = fields(self)
            if len(positional) > len(known_fields):
                raise TypeError(
                    f"{type(self).__name__} has {len(known_fields)} fields, and {len(positional)} values were given"
                )
            values = dict(zip((one.name for one in known_fields), positional))
            if wrong := [name for name in named if name in values or name not in {one.name for one in known_fields}]:
                raise TypeError(f"{type(self).__name__}: {wrong[0]!r} is not a field of it, or given twice")
            values.update(named)
            for model_field in known_fields:
                if model_field.name not in values:
                    values[model_field.name] = (
                        model_field.default if model_field.default_factory is MISSING else model_field.default_factory()
                    )
                if values[model_field.name] is MISSING:
                    raise TypeError(f"{type(self).__name__}: no value for {model_field.name!r}")
            self.__dict__.update(values)

    def __setattr__(self, name: str, content: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self))  # type: ignore[arg-type]

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # most of them have lists

    @classmethod
    def of(cls: type[M], wire: Any) -> M:  # noqa: PYI019  Self is of 3.11
        """Return the object that an answer describes; TypeError or KeyError where it does not fit."""
        if not isinstance(wire, dict):
            raise WrongType(f"{cls.__name__}: an object, and not {describe_kind(wire)}")
        values: dict[str, Any] = {"_wire": wire}
        for name, key, read, default in _fields_of(cls):
            if key in wire:
                try:
                    values[name] = wire[key] if read is None else read(wire[key])
                except WrongType as error:
                    raise WrongType(f"{cls.__name__}.{name}: {error}") from None
            elif default is not MISSING:
                values[name] = default() if callable(default) else default
            else:
                raise KeyError(f"{cls.__name__} has no {key!r}")
        model = cls.__new__(cls)
        model.__dict__.update(values)
        return model

    @property
    def more(self) -> dict[str, Any]:
        """Fields of the answer that this library does not know, since it is older than the server."""
        known_keys = {one.key for one in _fields_of(type(self))}
        known_keys.add("request_id")
        return {key: content for key, content in (self._wire or {}).items() if key not in known_keys}

    @property
    def request_id(self) -> Optional[str]:
        """The name of the request in the server's log, where this is a whole answer."""
        request_id = (self._wire or {}).get("request_id")
        return request_id if isinstance(request_id, str) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the object as it came over the wire, all of it; a copy."""
        if self._wire is not None:
            return copy.deepcopy(dict(self._wire))
        return {one.key: to_plain(getattr(self, one.name)) for one in _fields_of(type(self))}

    def __repr__(self) -> str:
        field_values = ((one.name, getattr(self, one.name), one.default) for one in _fields_of(type(self)))
        parts = [f"{name}={shorten(value)}" for name, value, default in field_values if not _is_default(value, default)]
        return f"{type(self).__name__}({', '.join(parts)})"


class WrongType(TypeError):
    """A value of another type than the field's; the message gets the path of the field on its way out."""


_FIELDS_OF: dict[type, list[_Field]] = {}


def _fields_of(cls: type) -> list[_Field]:
    """Return how the fields of a class are read; derived from its annotations on first use."""
    model_fields = _FIELDS_OF.get(cls)
    if model_fields is None:
        hints = typing.get_type_hints(cls)
        model_fields = _FIELDS_OF[cls] = [
            _Field(
                field_of_class.name,
                field_of_class.metadata.get("key", field_of_class.name),
                field_of_class.metadata.get("read") or _reader(hints[field_of_class.name]),
                field_of_class.default_factory
                if field_of_class.default_factory is not MISSING
                else field_of_class.default,
            )
            for field_of_class in fields(cls)
        ]
    return model_fields


def _reader(hint: Any) -> Optional[Read]:
    """Return the function that checks a value and makes models of objects; None where anything will do."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return None
    if origin is Union:
        inner = _reader(next(one for one in arguments if one is not type(None)))
        return (lambda value: None if value is None else inner(value)) if inner else None
    if origin is list:
        return _list_reader(arguments[0])
    if origin in (dict, Mapping):
        return _dict_reader(arguments[1])
    if isinstance(hint, type) and issubclass(hint, Model):
        return hint.of
    return _READERS[hint]


def _list_reader(hint: Any) -> Read:
    inner = _reader(hint)

    def read(wire: Any) -> list[Any]:
        if not isinstance(wire, list):
            raise WrongType(f"a list, and not {describe_kind(wire)}")
        return wire if inner is None else [inner(one) for one in wire]

    return read


def _dict_reader(hint: Any) -> Read:
    inner = _reader(hint)

    def read(wire: Any) -> dict[str, Any]:
        if not isinstance(wire, dict):
            raise WrongType(f"an object, and not {describe_kind(wire)}")
        return wire if inner is None else {key: inner(one) for key, one in wire.items()}

    return read


def _read_text(wire: Any) -> str:
    if type(wire) is not str:
        raise WrongType(f"a text, and not {describe_kind(wire)}")
    return wire


def _read_int(wire: Any) -> int:
    if type(wire) is not int:
        raise WrongType(f"a whole number, and not {describe_kind(wire)}")
    return wire


def read_float(wire: Any) -> float:
    if type(wire) is float:
        return wire
    if type(wire) is int:
        return float(wire)
    raise WrongType(f"a number, and not {describe_kind(wire)}")


def _read_bool(wire: Any) -> bool:
    if type(wire) is not bool:
        raise WrongType(f"true or false, and not {describe_kind(wire)}")
    return wire


_READERS: dict[Any, Read] = {str: _read_text, int: _read_int, float: read_float, bool: _read_bool}


def describe_kind(wire: Any) -> str:
    names = {type(None): "null", dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(wire), "a number" if isinstance(wire, (int, float)) else type(wire).__name__)


def to_plain(content: Any) -> Any:
    """Return content with models replaced by their objects, at any depth."""
    if isinstance(content, Model):
        return content.to_dict()
    if isinstance(content, Mapping):
        return {key: to_plain(one) for key, one in content.items()}
    if isinstance(content, Sequence) and not isinstance(content, (str, bytes)):
        return [to_plain(one) for one in content]
    return content


def _is_default(field_value: Any, default: Any) -> bool:
    return default is not MISSING and field_value == (default() if callable(default) else default)


def shorten(content: Any) -> str:
    """Return content for a repr: as much of it as one line has room for."""
    if isinstance(content, str):
        return repr(content) if len(content) <= _TEXT else f"{content[:_TEXT]!r}…"
    if isinstance(content, dict):
        entries = [f"{key!r}: {shorten(one)}" for key, one in list(content.items())[:_SHOWN]]
        return f"{{{', '.join(entries)}{_rest(content)}}}"
    if isinstance(content, list):
        return f"[{', '.join(shorten(one) for one in content[:_SHOWN])}{_rest(content)}]"
    return f"{content:.6g}" if isinstance(content, float) else repr(content)


def _rest(container: Union[list[Any], dict[Any, Any]]) -> str:
    return f", … {len(container):,} in all" if len(container) > _SHOWN else ""


class Rows(list[T]):
    """A list of results, in order; `next` is where the server's list goes on, if it does."""

    def __init__(self, rows: Sequence[T] = (), next: Optional[str] = None) -> None:  # noqa: A002  the wire's name
        super().__init__(rows)
        self.next = next

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row as it came over the wire."""
        return [to_plain(one) for one in self]

    def to_frame(self, kind: str = "pandas") -> Any:
        """Return a frame of pandas or polars with a row for each."""
        return make_frame(self.to_dicts(), kind)

    def __reduce__(self) -> Any:
        return Rows, (list(self), self.next)
