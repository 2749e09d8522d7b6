"""The kinds of values that options take: what each accepts, makes of it, and says of its limits."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from refaug.core.options.declaring import Length, Pattern
from refaug.core.text.messages import suggestion

# ── Values and numbers in messages ────────────────────────────────────────────────────────────────────────────────────

_LONGEST: Final = 60
_MOST_BITS: Final = 200  # of a whole number that is written out: the time grows with the square of its digits


def shown(value: object) -> str:
    """Return the beginning of a value; of what is neither a text nor a number, what it is."""
    if value is None:
        return "null"
    if isinstance(value, str):
        text = repr(value[: _LONGEST + 1])
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if isinstance(value, int | float):
        return number_in_words(value) if not isinstance(value, bool) else str(value).lower()
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def number_in_words(number: float) -> str:
    """Return a number as messages have it."""
    if isinstance(number, int):
        long = f"a number of {number.bit_length():,} bits"
        return f"{number:,}" if number.bit_length() <= _MOST_BITS else long
    return f"{number:,.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.10g}"


def size_in_words(size: int) -> str:
    """Return bytes as options take them: with the largest unit that leaves a whole number."""
    power = next((power for power in (3, 2, 1) if size >= 1024**power and size % 1024**power == 0), 0)
    return f"{size >> 10 * power}{('', 'KiB', 'MiB', 'GiB')[power]}"


def in_words(words: Sequence[str], last: str = " and ") -> str:
    """Return words as a list in a sentence."""
    return last.join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


# ── The kinds of values that options take: what each accepts, makes of it, and says of its limits ─────────────────────

T_co = TypeVar("T_co", covariant=True)
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgtKMGT]?)(?:i?[bB])?")
_MAX_FAULTS: Final = 1_000  # of one list: more take longer to list than to find


class WrongValue(Exception):
    """A value that an option does not take: `places` has each faulty place inside it, with what is wrong there."""

    def __init__(self, message: str = "", places: Sequence[tuple[str, str]] = ()) -> None:
        self.places = list(places) or [("", message)]
        super().__init__(self.places[0][1])


class Kind(ABC, Generic[T_co]):
    """What a value has to be."""

    @abstractmethod
    def read(self, value: Any) -> T_co:
        """Return the value as the code behind has it; WrongValue for another one. Nothing is converted silently."""

    def read_text(self, text: str) -> Any:
        """Return the value that a text of a command line spells, which `read` then checks."""
        return text

    @property
    def metavar(self) -> str:
        """What help shows in place of the value."""
        return "TEXT"


@dataclass(frozen=True)
class AnyKind(Kind[Any]):
    """Whatever the code behind it checks."""

    def read(self, value: Any) -> Any:
        """Return the value."""
        return value


@dataclass(frozen=True)
class BoolKind(Kind[bool]):
    """True or false."""

    def read(self, value: Any) -> bool:
        """Return the value."""
        if not isinstance(value, bool):
            raise WrongValue(f"{shown(value)} is neither true nor false")
        return value


@dataclass(frozen=True, kw_only=True)
class NumberKind(Kind[float]):
    """A number within limits; whole ones alone where `is_whole`."""

    is_whole: bool = False
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def read(self, value: Any) -> float:
        """Return the number."""
        is_number = isinstance(value, int) or (isinstance(value, float) and not self.is_whole)
        if isinstance(value, bool) or not is_number:
            raise WrongValue(f"{shown(value)} is not {'a whole number' if self.is_whole else 'a number'}")
        number: float = value
        if not self.is_whole:
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if not math.isfinite(number):
                raise WrongValue(f"{shown(value)} is not a finite number")
        if (
            (self.ge is not None and number < self.ge)
            or (self.gt is not None and number <= self.gt)
            or (self.le is not None and number > self.le)
            or (self.lt is not None and number >= self.lt)
        ):
            raise WrongValue(f"{number_in_words(number)} is out of range: {self.range}")
        return number

    def read_text(self, text: str) -> Any:
        """Return the number that the text spells, or the text."""
        try:
            if "_" in text:
                return text
            return int(text) if self.is_whole else float(text)
        except ValueError:
            return text

    @property
    def range(self) -> str:
        """The limits in words; empty without any."""
        low, high = (self.ge if self.ge is not None else self.gt), (self.le if self.le is not None else self.lt)
        if low is not None and high is not None:
            words = f"from {number_in_words(low)} to {number_in_words(high)}"
        elif low is not None:
            words = f"at least {number_in_words(low)}" if self.gt is None else f"above {number_in_words(low)}"
        elif high is not None:
            words = f"at most {number_in_words(high)}" if self.lt is None else f"below {number_in_words(high)}"
        else:
            return ""
        left_out = [number_in_words(bound) for bound in (self.gt, self.lt) if bound is not None]
        return (
            f"{words}, without {' and '.join(left_out)}" if low is not None and high is not None and left_out else words
        )

    @property
    def metavar(self) -> str:
        """What help shows in place of the value."""
        return "N" if self.is_whole else "NUMBER"


@dataclass(frozen=True)
class SizeKind(Kind[int]):
    """Bytes: a whole number, or a text with a unit; with or without an i, units are powers of 1024."""

    least: int = 0

    def read(self, value: Any) -> int:
        """Return the bytes."""
        size = value
        if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())) is not None:
            size = int(float(match[1]) * 1024 ** ("kmgt".find(match[2].lower()) + 1 if match[2] else 0))
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 1 << 63:
            raise WrongValue(f"{shown(value)} is not a size: for example 512MiB or 2GiB")
        if size < self.least:
            raise WrongValue(f"{shown(value)} is too little: at least {size_in_words(self.least)}")
        return size

    @property
    def metavar(self) -> str:
        """What help shows in place of the value."""
        return "SIZE"


@dataclass(frozen=True, kw_only=True)
class TextKind(Kind[str]):
    """A text."""

    length: Length = field(default_factory=Length)
    pattern: Pattern | None = None

    def read(self, value: Any) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise WrongValue(f"{shown(value)} is not a text")
        require_length(len(value), self.length, "characters")
        if self.pattern is not None and self.pattern.expression.fullmatch(value) is None:
            raise WrongValue(f"{shown(value)} is not {self.pattern.meaning}")
        return value


@dataclass(frozen=True)
class ChoiceKind(Kind[Any]):
    """One of a few values."""

    choices: tuple[Any, ...]

    def read(self, value: Any) -> Any:
        """Return the choice."""
        for choice in self.choices:
            spelled = choice.value if isinstance(choice, Enum) else choice
            if value is choice or (type(value) is type(spelled) and value == spelled):
                return choice
        near = suggestion(value, self.spellings) if isinstance(value, str) else ""
        raise WrongValue(f"{shown(value)} is not one of {', '.join(self.spellings)}{near}")

    @property
    def spellings(self) -> list[str]:
        """The choices as they are written."""
        return [str(choice.value if isinstance(choice, Enum) else choice) for choice in self.choices]

    @property
    def metavar(self) -> str:
        """What help shows in place of the value."""
        return "|".join(self.spellings)


@dataclass(frozen=True)
class MomentKind(Kind[datetime]):
    """A time with its zone, or a text in ISO 8601, which is UTC where it names no zone."""

    def read(self, value: Any) -> datetime:
        """Return the time."""
        moment = value
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                raise WrongValue(f"{shown(value)} is not a time, such as 2026-11-20T08:00:00Z") from None
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        if not isinstance(moment, datetime):
            raise WrongValue(f"{shown(value)} is not a time, such as 2026-11-20T08:00:00Z")
        if moment.tzinfo is None:
            raise WrongValue(f"{moment.isoformat()} has no time zone")
        return moment

    @property
    def metavar(self) -> str:
        """What help shows in place of the value."""
        return "TIME"


@dataclass(frozen=True)
class PathKind(Kind[Path]):
    """A file or folder, which commands and programs name, and bodies do not."""

    def read(self, value: Any) -> Path:
        """Return the path."""
        if not isinstance(value, str | Path):
            raise WrongValue(f"{shown(value)} is not a path")
        return Path(value)

    @property
    def metavar(self) -> str:
        """What help shows in place of the value."""
        return "PATH"


@dataclass(frozen=True, kw_only=True)
class ListKind(Kind[tuple[Any, ...]]):
    """A list of values of one kind; a tuple is one, too, and a text is not."""

    element: Kind[Any]
    length: Length = field(default_factory=Length)
    is_distinct: bool = False

    def read(self, value: Any) -> tuple[Any, ...]:
        """Return the elements; the faults of all of them are told."""
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
            raise WrongValue(f"{shown(value)} is not a list")
        require_length(len(value), self.length, "elements")
        if isinstance(self.element, AnyKind):
            return tuple(value)
        elements, places = list[Any](), list[tuple[str, str]]()
        for number, element in enumerate(value):
            try:
                elements.append(self.element.read(element))
            except WrongValue as wrong:
                places += [(f"[{number}]{place}", message) for place, message in wrong.places]
                if len(places) >= _MAX_FAULTS:
                    break
        if places:
            raise WrongValue(places=places)
        if self.is_distinct and (twice := next((one for one in elements if elements.count(one) > 1), None)) is not None:
            raise WrongValue(f"{shown(twice)} comes twice")
        return tuple(elements)

    def read_text(self, text: str) -> Any:
        """Return the elements that a text with commas spells; `none` spells none."""
        return [] if text == "none" else [self.element.read_text(part.strip()) for part in text.split(",")]

    @property
    def metavar(self) -> str:
        """What help shows in place of one of the elements."""
        return self.element.metavar


@dataclass(frozen=True, kw_only=True)
class MapKind(Kind[dict[str, Any]]):
    """Values of one kind by names."""

    element: Kind[Any]
    key: Kind[Any] = field(default_factory=TextKind)
    length: Length = field(default_factory=Length)
    names_files: bool = False  # a text without a name is a file that names itself

    def read(self, value: Any) -> dict[str, Any]:
        """Return the values by name."""
        if not isinstance(value, Mapping):
            raise WrongValue(f"{shown(value)} is not an object")
        require_length(len(value), self.length, "fields")
        elements, places = dict[str, Any](), list[tuple[str, str]]()
        for name, element in value.items():
            if not isinstance(name, str):
                places.append(("", f"the name {shown(name)} is not a text"))
                continue
            try:
                elements[self.key.read(name)] = self.element.read(element)
            except WrongValue as wrong:
                places += [(f".{name}{place}", message) for place, message in wrong.places[:_MAX_FAULTS]]
        if places:
            raise WrongValue(places=places)
        return elements

    def read_texts(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the values that texts such as NAME=VALUE spell."""
        spelled = dict[str, Any]()
        for text in texts:
            name, equals, element = text.partition("=")
            if not (equals and element):
                if not self.names_files:
                    raise WrongValue(f"{shown(text)} is not {self.metavar}")
                name, element = "stdin" if text == "-" else Path(text).name.split(".")[0] or text, text
            if name in spelled:
                raise WrongValue(
                    f"{shown(name)} comes twice: give the second one another name, such as {name}-2={element}"
                )
            spelled[name] = self.element.read_text(element)
        return spelled

    @property
    def metavar(self) -> str:
        """What help shows in place of one of the values."""
        return f"NAME={self.element.metavar}"


@dataclass(frozen=True)
class UnionKind(Kind[Any]):
    """A value of one of several kinds, None among them where `has_none`."""

    kinds: tuple[Kind[Any], ...]
    has_none: bool = False

    def read(self, value: Any) -> Any:
        """Return what the first kind that takes the value makes of it."""
        if value is None and self.has_none:
            return None
        faults = list[WrongValue]()
        for kind in self.kinds:
            try:
                return kind.read(value)
            except WrongValue as wrong:
                faults.append(wrong)
        if len(faults) == 1:
            raise faults[0]
        raise WrongValue(in_words([str(fault) for fault in faults], "; and "))

    def read_text(self, text: str) -> Any:
        """Return what the first kind makes of the text that then takes it."""
        spellings = [kind.read_text(text) for kind in self.kinds]
        for kind, spelled in zip(self.kinds, spellings, strict=True):
            try:
                kind.read(spelled)
            except WrongValue:
                continue
            return spelled
        return next((spelled for spelled in spellings if spelled != text), text)

    @property
    def metavar(self) -> str:
        """What help shows in place of the value."""
        return "|".join(kind.metavar for kind in self.kinds)


def require_length(count: int, length: Length, noun: str) -> None:
    """Raise WrongValue where there are too few or too many."""
    if count < length.least:
        few = "it is empty" if count == 0 else f"{count:,} {noun} are too few"
        raise WrongValue(f"{few}: at least {length.least:,}")
    if length.most is not None and count > length.most:
        raise WrongValue(f"{count:,} {noun} are too many: at most {length.most:,}")
