"""Content of unknown shape, such as JSON from outside: how deep it is nested, what it repeats, and its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from json import JSONDecoder
from typing import Any, Final

MAX_DEPTH: Final = 32  # lists and objects in one another; orjson reads 1,024 and writes 254, and Python shows about 300
_LONGEST_NUMBER: Final = 64  # bits: Python refuses to write whole numbers of more than 4,300 digits


def is_nested_too_deep(content: object, most: int = MAX_DEPTH) -> bool:
    """Whether more than `most` lists and objects lie in one another."""
    level = [content] if isinstance(content, _CONTAINERS) else []
    for _ in range(most):
        if not level:
            return False
        level = [part for container in level for part in _parts_of(container) if isinstance(part, _CONTAINERS)]
    return bool(level)


_CONTAINERS: Final = (list, tuple, dict)


def _parts_of(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def repeated_key(document: bytes, content: object) -> str | None:
    """Return a key that an object in a JSON document has twice, of whose values `content` has the last alone."""
    if isinstance(content, dict) and document.count(b":") == len(content):  # every colon stands behind another key
        return None
    try:
        _WITH_UNIQUE_KEYS.decode(document.decode())
    except _RepeatedKey as error:
        return str(error)
    except (ValueError, RecursionError):  # a reader of other limits has read it
        return None
    return None


class _RepeatedKey(Exception):
    """An object of JSON has this key twice."""


def _require_unique_keys(pairs: Sequence[tuple[str, object]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKey(next(key for place, key in enumerate(keys) if key in keys[:place]))


_WITH_UNIQUE_KEYS: Final = JSONDecoder(object_pairs_hook=_require_unique_keys, parse_int=str, parse_float=str)


def has_surrogate(text: str) -> bool:
    """Whether a text holds half a character, which no encoding can write."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def short_repr(content: object, most: int) -> str:
    """Return the beginning of content as Python prints it, of at most `most` characters, however large it is."""
    shown = ""
    for piece in _pieces(content, most):
        shown += piece
        if len(shown) > most:
            return f"{shown[: most - 1]}…"
    return shown


def _pieces(content: object, most: int) -> Iterator[str]:
    """Yield the text of content piece by piece; each level yields its bracket first, which bounds the depth."""
    if isinstance(content, str):
        yield repr(content[: most + 1])
    elif isinstance(content, dict):
        yield "{"
        for place, (key, part) in enumerate(content.items()):
            yield ", " if place else ""
            yield from _pieces(key, most)
            yield ": "
            yield from _pieces(part, most)
        yield "}"
    elif isinstance(content, list | tuple):
        yield "[" if isinstance(content, list) else "("
        for place, part in enumerate(content):
            yield ", " if place else ""
            yield from _pieces(part, most)
        yield "]" if isinstance(content, list) else ",)" if len(content) == 1 else ")"
    elif isinstance(content, int) and content.bit_length() > _LONGEST_NUMBER:
        yield f"a whole number of {content.bit_length():,} bits"
    else:
        yield repr(content)
