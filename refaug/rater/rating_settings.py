"""How a rater's two probabilities become a rating: the settings, without the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, get_args

from refaug.core.options.declaring import Doc, Panel, Signed
from refaug.core.options.decoding import Options

Combine = Literal["first", "first-literal", "max", "confident", "mean"]
Calibration = Literal["raw", "cal"]
COMBINES: Final[tuple[str, ...]] = get_args(Combine)


@dataclass(frozen=True, kw_only=True)
class RatingSettings(Options):
    """How the probabilities of the two triplets become a rating."""

    panel: ClassVar[Panel] = Panel("Retrieval", rare=("combine", "calibrated"))

    combine: Annotated[
        Combine, Doc("How the rater's two answers become a rating: docs/raters.md."), Signed(is_short=True)
    ] = "first"
    calibrated: Annotated[
        bool, Doc("Rate with the rater's temperature."), Signed(key="cal", is_short=True, flags=("raw", "cal"))
    ] = False

    @property
    def calibration(self) -> Calibration:
        """The setting as signatures have it."""
        return "cal" if self.calibrated else "raw"

    @property
    def needs_second(self) -> bool:
        """Whether the triplet from the candidate's side counts."""
        return not self.combine.startswith("first")
