"""Rating texts as replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Doc
from refaug.operations.operation import Operation, Spec
from refaug.rater.rating_settings import RatingSettings


@dataclass(frozen=True, kw_only=True)
class RateCandidates(RatingSettings, Operation):
    """Rate texts that could be replies, against the golds of their test pair."""

    operation: ClassVar[str] = "rate"

    rater: Annotated[Spec | None, Doc("Rater: NAME or NAME@VERSION; of requests, else the server's.")] = None

    @property
    def rating(self) -> RatingSettings:
        """How they are rated: requests with the same settings share a batch."""
        return RatingSettings(combine=self.combine, calibrated=self.calibrated)
