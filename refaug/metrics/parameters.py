"""The parameters of metrics: their allowed values, their defaults, and how specifications write them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Self

from refaug.core.errors import BadInput, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AUTO: Final = "auto"
_DIGITS: Final = 7  # more than the precision of a sample of pairs


@dataclass(frozen=True, kw_only=True)
class Parameter(ABC):
    """One key of a metric's specification; `canonical` returns the only form in which signatures write a value."""

    name: str
    default: str
    help: str

    @property
    @abstractmethod
    def allowed(self) -> str:
        """The allowed values in words."""

    @abstractmethod
    def canonical(self, text: str) -> str | None:
        """Return the value as signatures write it, or None if it is not allowed."""

    def parse(self, text: str, metric: str) -> str:
        """Return the canonical value; Usage tells the allowed values."""
        canonical = self.canonical(text)
        if canonical is None:
            raise Usage(f"{metric}: {self.name} cannot be {text!r}", remedy=f"{self.name} is {self.allowed}")
        return canonical


@dataclass(frozen=True, kw_only=True)
class Choice(Parameter):
    """One of a few words."""

    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The words."""
        return " | ".join(self.choices)

    def canonical(self, text: str) -> str | None:
        """Return the text, if it is one of the words."""
        return text if text in self.choices else None


@dataclass(frozen=True, kw_only=True)
class Number(Parameter):
    """A decimal number between two bounds."""

    least: float
    most: float
    whole: bool = False

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"a {'whole ' if self.whole else ''}number from {shortest(self.least)} to {shortest(self.most)}"

    def canonical(self, text: str) -> str | None:
        """Return the shortest digits that give the same number."""
        number = decimal(text)
        if number is None or not self.least <= number <= self.most or (self.whole and number != int(number)):
            return None
        return shortest(number)


@dataclass(frozen=True, kw_only=True)
class Text(Parameter):
    """A name or a path, which the metric looks up."""

    what: str

    @property
    def allowed(self) -> str:
        """What the text names."""
        return self.what

    def canonical(self, text: str) -> str | None:
        """Return the text unchanged."""
        return text if text and "," not in text else None


@dataclass(frozen=True, kw_only=True)
class Members(Parameter):
    """Several metrics with + between them, their parameters behind semicolons: judge;model=a+chrf;case=lc."""

    default: str = ""

    @property
    def allowed(self) -> str:
        """How metrics are listed."""
        return "metrics with + between them, their parameters behind semicolons: judge;model=NAME+chrf"

    def canonical(self, text: str) -> str | None:
        """Return the text unchanged."""
        return text if text and "," not in text else None


SMOOTHING_DEFAULTS = {"none": None, "floor": 0.1, "add-k": 1.0, "exp": None, "epsilon": 1e-15}
_SMOOTHING = re.compile(r"([a-z-]+)(?:\[([^\[\]]*)\])?")


@dataclass(frozen=True, kw_only=True)
class Smoothing(Parameter):
    """A smoothing method with its value in brackets: `add-k[1]`; without brackets, the method's default."""

    @property
    def allowed(self) -> str:
        """The methods."""
        return "none | floor[0.1] | add-k[1] | exp | epsilon[1e-15] (floor and epsilon at most 1, all above 0)"

    def canonical(self, text: str) -> str | None:
        """Return the method, with its value where it takes one."""
        match = _SMOOTHING.fullmatch(text)
        if match is None or match[1] not in SMOOTHING_DEFAULTS:
            return None
        default = SMOOTHING_DEFAULTS[match[1]]
        if default is None:
            return match[1] if match[2] is None else None
        method_value = default if match[2] is None else decimal(match[2])
        # A floor above 1 would also raise a match of one n-gram, unlike sacrebleu.
        most = 1.0 if match[1] in ("floor", "epsilon") else 1e6
        if method_value is None or not 0 < method_value <= most:
            return None
        return f"{match[1]}[{shortest(method_value)}]"


def smoothing_of(canonical: str) -> tuple[str, float]:
    """Split `add-k[1]` into the method and its value; 0 where there is none."""
    method, _, rest = canonical.partition("[")
    return method, float(rest.rstrip("]") or 0)


def decimal(text: str) -> float | None:
    """Parse a finite number as people and programs write it, or return None."""
    if not re.fullmatch(r"[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})(e[+-]?\d{1,3})?", text, re.IGNORECASE | re.ASCII):
        return None
    number = float(text)
    return number if isfinite(number) else None


def shortest(number: float) -> str:
    """Return `1`, `0.1`, `1e-15`: the shortest text that reads back as this number."""
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    mantissa, _, exponent = repr(number).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}" if exponent else mantissa


# ── Ranges, which map scores on different scales to [0, 1] ────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Range:
    """Two values of a score: the one that counts as 0 and the one that counts as 1."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read `LOW..HIGH`; None where the text is not that, or where LOW is not below HIGH."""
        low, _, high = text.partition("..")
        ends = decimal(low), decimal(high)
        if ends[0] is None or ends[1] is None or not ends[0] < ends[1]:
            return None
        return cls(ends[0], ends[1])

    @classmethod
    def of_ends(cls, low: float, high: float, *, what: str) -> Self:
        """Round both ends to the digits of specifications; BadInput where they are then equal."""
        rounded = cls(round(low, _DIGITS), round(high, _DIGITS))
        if not rounded.low < rounded.high:
            raise BadInput(
                f"{what} get {rounded.low:g}, so that no score of them is lower or higher than another",
                remedy="another part, or norm=none",
            )
        return rounded

    def __str__(self) -> str:
        return f"{shortest(self.low)}..{shortest(self.high)}"

    def scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map each value to a number from 0 to 1; values outside count as the nearer end."""
        import numpy as np  # noqa: PLC0415  the catalogue of metrics is listed without it

        return np.asarray(np.clip((values - self.low) / (self.high - self.low), 0, 1))


@dataclass(frozen=True, kw_only=True)
class RangeParameter(Parameter):
    """Two numbers, `0.25..0.75`, or auto where they are to be measured."""

    @property
    def allowed(self) -> str:
        """How ranges are written."""
        return "auto, or two numbers, the lower first: 0.25..0.75"

    def canonical(self, text: str) -> str | None:
        """Return the shortest digits that give the same numbers."""
        ends: Any = text if text == AUTO else Range.parse(text)
        return None if ends is None else str(ends)
