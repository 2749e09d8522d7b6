"""Questions and answers of the processes of a cluster as bytes: a small head, and the arrays after it as they are.

Ray passes bytes on as they are. Values it would take apart with pickle, array by array, which for a question with many
small arrays takes longer than the answer. Here only types that are named beforehand are built, from values that both
sides know; nothing in a message is run.

    length of the message, length of the head    8 bytes each
    head                                         JSON, filled up to a multiple of 8 bytes
    arrays                                       each filled up in the same way, in the order in which the head has them

In the head a list begins with what it stands for: a list, a tuple, an array by its type and shape, or a known type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime
from itertools import repeat
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.errors import Corrupt

_LENGTHS: Final = struct.Struct("<QQ")
_STEP: Final = 8  # bytes; what compiled loops read is aligned
_FILLING: Final = [bytes(count) for count in range(_STEP)]

_LIST, _TUPLE, _PLAIN, _ARRAY, _NUMBER, _TIME = "[", "(", "=", "@", "#", "t:"
_PLAIN_TYPES: Final = frozenset({str, int, bool, type(None)})
_DTYPES: Final = [np.dtype(name) for name in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
_ARRAY_NAMES: Final = {kind: kind.str for kind in _DTYPES}
_ARRAY_TYPES: Final = {kind.str: (kind, kind.itemsize) for kind in _DTYPES}

Head = Any  # what JSON has


class Messages:
    """Packs values of plain types, arrays, and named tuples and dataclasses that are known by their names."""

    def __init__(self, *kinds: type) -> None:
        self._writers: dict[type, Callable[[Any, _Arrays], Head]] = {
            list: self._write_list,
            tuple: self._write_tuple,
            float: _write_number,
            datetime: lambda moment, _arrays: [_TIME, moment.isoformat()],
            **{kind: self._writer_of(kind) for kind in kinds},
        }
        self._readers: dict[str, Callable[[list[Head], _ArrayReader], Any]] = {
            _LIST: lambda head, arrays: [self._read(item, arrays) for item in head[1:]],
            _TUPLE: lambda head, arrays: tuple([self._read(item, arrays) for item in head[1:]]),
            _PLAIN: lambda head, _arrays: head[1],
            _NUMBER: lambda head, _arrays: float(head[1]),
            _TIME: lambda head, _arrays: datetime.fromisoformat(head[1]),
            _ARRAY: lambda head, arrays: arrays.read(head),
            **{kind.__name__: self._reader_of(kind) for kind in kinds},
        }
        assert len(self._readers) == len(self._writers) + 2, "two types have one name"

    # Packing

    def pack(self, value: Any) -> bytes:
        """Return a value as bytes; a TypeError says which type has no place in messages."""
        arrays = _Arrays()
        head = orjson.dumps(self._write(value, arrays))
        head += _FILLING[-len(head) % _STEP]
        total = _LENGTHS.size + len(head) + arrays.size
        return b"".join([_LENGTHS.pack(total, len(head)), head, *arrays.parts])

    def _write(self, value: Any, arrays: _Arrays) -> Head:
        kind = type(value)
        if kind is np.ndarray:
            return arrays.written(value)
        if kind in _PLAIN_TYPES:
            return value
        writer = self._writers.get(kind)
        if writer is None:
            raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no place in messages")
        return writer(value, arrays)

    def _write_list(self, values: list[Any], arrays: _Arrays) -> Head:
        if _PLAIN_TYPES.issuperset(map(type, values)):  # perhaps many texts
            return [_PLAIN, values]
        return [_LIST, *map(self._write, values, repeat(arrays))]

    def _write_tuple(self, values: tuple[Any, ...], arrays: _Arrays) -> Head:
        return [_TUPLE, *map(self._write, values, repeat(arrays))]

    def _writer_of(self, kind: type) -> Callable[[Any, _Arrays], Head]:
        names, name = _names_of(kind), kind.__name__
        if issubclass(kind, tuple):
            return lambda value, arrays: [name, *map(self._write, value, repeat(arrays))]
        return lambda value, arrays: [name, *[self._write(getattr(value, part), arrays) for part in names]]

    # Unpacking

    def unpack(self, message: bytes) -> Any:
        """Return the value in a message, with arrays that are copies; Corrupt where it is cut short or malformed."""
        if len(message) < _LENGTHS.size:
            raise _corrupt(f"is cut short: it has {len(message)} bytes")
        total, of_head = _LENGTHS.unpack_from(message)
        if total != len(message):
            raise _corrupt(f"has {len(message):,} bytes; its head says {total:,}")
        begin = _LENGTHS.size + of_head
        if begin > total:
            raise _corrupt(f"has {total:,} bytes, fewer than its head of {of_head:,}")
        arrays = _ArrayReader(np.frombuffer(message, np.uint8, offset=begin).copy() if begin < total else _NO_BYTES)
        try:
            value = self._read(orjson.loads(message[_LENGTHS.size : begin].rstrip(b"\0")), arrays)
        except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
            raise _corrupt(f"is not one of this version: {error!r}") from error
        if arrays.used != total - begin:
            raise _corrupt(f"has {total - begin:,} bytes of arrays; its head names {arrays.used:,}")
        return value

    def _read(self, head: Head, arrays: _ArrayReader) -> Any:
        if type(head) is not list:
            return head
        return arrays.read(head) if head[0] == _ARRAY else self._readers[head[0]](head, arrays)

    def _reader_of(self, kind: type) -> Callable[[list[Head], _ArrayReader], Any]:
        names = _names_of(kind)

        def read(head: list[Head], arrays: _ArrayReader) -> Any:
            values = [self._read(item, arrays) for item in head[1:]]
            return kind(**dict(zip(names, values, strict=True)))

        def read_tuple(head: list[Head], arrays: _ArrayReader) -> Any:
            return kind(*[self._read(item, arrays) for item in head[1:]])

        return read_tuple if issubclass(kind, tuple) else read


class _Arrays:
    """The arrays of a message, as they are written one after the other."""

    def __init__(self) -> None:
        self.parts, self.size = list[Any](), 0

    def written(self, array: NDArray[Any]) -> Head:
        """Add an array; return what the head says of it."""
        kind = _ARRAY_NAMES.get(array.dtype)
        if kind is None:
            raise TypeError(f"an array of {array.dtype} has no place in messages")
        if size := array.nbytes:
            self.parts.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
            if size % _STEP:
                self.parts.append(_FILLING[-size % _STEP])
                size += -size % _STEP
            self.size += size
        return [_ARRAY, kind, *array.shape]


class _ArrayReader:
    """The arrays of a message, as they are read one after the other."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self._content, self.used = content, 0

    def read(self, head: list[Head]) -> NDArray[Any]:
        """Return the next array, of the type and shape that the head says."""
        kind, size = _ARRAY_TYPES[head[1]]
        shape = head[2:]
        for length in shape:
            if length < 0:
                raise ValueError(f"no array has the shape {shape}")
            size *= length
        if not size:
            return np.empty(shape, kind)
        array = np.ndarray(shape, kind, self._content, self.used)
        self.used += size + -size % _STEP
        return array


def _names_of(kind: type) -> tuple[str, ...]:
    """Return what a named tuple or a dataclass is made from."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.init)
    return tuple(kind._fields)  # type: ignore[attr-defined]


def _write_number(number: float, _arrays: _Arrays) -> Head:
    return number if math.isfinite(number) else [_NUMBER, str(number)]  # JSON has finite ones alone


def _corrupt(what: str) -> Corrupt:
    return Corrupt(f"a message between processes of the cluster {what}", remedy="please report it")


_NO_BYTES: Final = np.empty(0, np.uint8)
