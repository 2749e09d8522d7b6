"""The settings of an evaluation and their limits: the defaults of commands, jobs and routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from refaug.core.errors import Usage

MAX_DRAWS: Final = 1_000_000
MIN_CONFIDENCE, MAX_CONFIDENCE = 0.5, 0.9999  # that commands, jobs and requests take
MAX_SEED: Final = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """The settings of an evaluation beside the metrics."""

    draws: int = 1_000  # of the bootstrap; 0: no intervals
    confidence: float = 0.95
    seed: int = 1
    baseline: str | None = None  # the system that all others are compared with
    explain: bool = False  # add credited n-grams, and the worth of each reference to each reply
    parts: bool = True  # add the parts of every reply's score

    def __post_init__(self) -> None:
        if self.draws < 0 or self.draws > MAX_DRAWS:
            raise Usage(f"{self.draws} draws", remedy="0 for no intervals, else up to 1,000,000")
        if not 0 < self.confidence < 1:
            raise Usage(f"a confidence of {self.confidence:g}", remedy="a share between 0 and 1, such as 0.95")
        if self.baseline is not None and not self.draws:
            raise Usage("a comparison without draws", remedy="1000 draws, or no baseline")

    def resampling(self) -> dict[str, Any]:
        """Return how intervals are computed, as JSON."""
        return {
            "method": "percentile bootstrap over items",
            "draws": self.draws,
            "confidence": self.confidence,
            "seed": self.seed,
            **({"baseline": self.baseline} if self.baseline is not None else {}),
        }
