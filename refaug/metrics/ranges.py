"""Ranges that map scores on different scales to [0, 1], and how specifications write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from refaug.core.errors import BadInput
from refaug.metrics.parameters import Parameter, decimal, shortest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AUTO: Final = "auto"
_DIGITS: Final = 7  # more than the precision of a sample of pairs


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
