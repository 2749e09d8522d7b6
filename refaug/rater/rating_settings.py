"""How a rater's two probabilities become a rating: the settings, without the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from refaug.core.errors import Usage

Combine = Literal["first", "first-literal", "max", "confident", "mean"]
Calibration = Literal["raw", "cal"]
COMBINES: Final[tuple[str, ...]] = get_args(Combine)


@dataclass(frozen=True, kw_only=True)
class RatingSettings:
    """How the probabilities of the two triplets become a rating."""

    combine: Combine = "first"
    calibration: Calibration = "raw"

    def __post_init__(self) -> None:
        if self.combine not in COMBINES:
            raise Usage(f"combine={self.combine!r} is not known", remedy=f"one of: {', '.join(COMBINES)}")
        if self.calibration not in ("raw", "cal"):
            raise Usage(f"cal={self.calibration!r} is not known", remedy="one of: raw, cal")

    @property
    def needs_second(self) -> bool:
        """Whether the triplet from the candidate's side counts."""
        return not self.combine.startswith("first")
