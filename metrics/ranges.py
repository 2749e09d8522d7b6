"""What counts as 0 and as 1 of a score: how scores on different scales come onto one, and how that is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import BadInput
from metrics.parameters import Parameter, decimal, shortest

AUTO: Final = "auto"
_DIGITS: Final = 7  # more than a sample of pairs can tell


@dataclass(frozen=True, slots=True)
class Range:
    """Two values of a score: the one that counts as 0 and the one that counts as 1."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read `LOW..HIGH`; None where it is not that, or where nothing is between the two."""
        low, _, high = text.partition("..")
        ends = decimal(low), decimal(high)
        if ends[0] is None or ends[1] is None or not ends[0] < ends[1]:
            return None
        return cls(ends[0], ends[1])

    @classmethod
    def of_ends(cls, low: float, high: float, *, what: str) -> Self:
        """As many digits of both as specifications have; BadInput where they are the same number then."""
        found = cls(round(low, _DIGITS), round(high, _DIGITS))
        if not found.low < found.high:
            raise BadInput(
                f"{what} get {found.low:g}, so that no score of them is lower or higher than another",
                remedy="another part, or norm=none",
            )
        return found

    def __str__(self) -> str:
        return f"{shortest(self.low)}..{shortest(self.high)}"

    def mapped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each as a number from 0 to 1; what is outside counts as the end that is near."""
        return np.asarray(np.clip((values - self.low) / (self.high - self.low), 0, 1))


@dataclass(frozen=True, kw_only=True)
class RangeParameter(Parameter):
    """Two numbers, `0.25..0.75`, or auto where somebody else is to say them."""

    @property
    def allowed(self) -> str:
        """How they are written."""
        return "auto, or two numbers, the lower first: 0.25..0.75"

    def canonical(self, text: str) -> str | None:
        """The shortest digits that give the same numbers."""
        found: Any = text if text == AUTO else Range.parse(text)
        return None if found is None else str(found)
