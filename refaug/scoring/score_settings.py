"""The settings of an evaluation with their limits: every face has these."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Length, Metavar, Panel
from refaug.core.options.decoding import Options

MAX_DRAWS: Final = 1_000_000
MIN_CONFIDENCE, MAX_CONFIDENCE = 0.5, 0.9999
MAX_SEED: Final = 2**32 - 1
Draws = Annotated[int, Ge(0), Le(MAX_DRAWS), Doc("Draws of the bootstrap; 0: no intervals.")]
Confidence = Annotated[float, Ge(MIN_CONFIDENCE), Le(MAX_CONFIDENCE), Doc("Of the intervals.")]
ResamplingSeed = Annotated[int, Ge(0), Le(MAX_SEED), Doc("Of the resampling.")]


@dataclass(frozen=True, kw_only=True)
class Resampling(Options):
    """Intervals and comparisons."""

    panel: ClassVar[Panel] = Panel("Statistics", rare=("confidence", "seed"))

    draws: Draws = 1_000
    confidence: Confidence = 0.95
    seed: ResamplingSeed = 1
    baseline: Annotated[
        str | None, Length(1, 200), Metavar("SYSTEM"), Doc("The system that every other one is compared with.")
    ] = None

    def check(self) -> None:
        """Refuse what is of intervals where there are none."""
        super().check()
        changed = [
            name for name in ("baseline", "confidence", "seed") if getattr(self, name) != getattr(type(self), name)
        ]
        if changed and not self.draws:
            raise Usage("it has no effect without draws", remedy="1000 draws, or leave it out", field=changed[0])

    def resampling(self) -> dict[str, object]:
        """Return how intervals are computed, as JSON."""
        return {
            "method": "percentile bootstrap over items",
            "draws": self.draws,
            "confidence": self.confidence,
            "seed": self.seed,
            **({"baseline": self.baseline} if self.baseline is not None else {}),
        }


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(Resampling):
    """The settings of an evaluation beside the metrics."""

    panel: ClassVar[Panel] = Panel("Output")

    explain: Annotated[
        bool, Doc("Say which n-grams are credited to which reference, and what scores are without each reference.")
    ] = False
    percent: Annotated[bool, Doc("Scores of metrics from 0 to 1 times 100; others stay as they are.")] = False


class RowsChoice(StrEnum):
    """Which rated replies count."""

    FAIR = "fair"  # without replies that are one of their golds; references identical to the reply do not count
    ALL = "all"  # every rated reply, against every reference


@dataclass(frozen=True, kw_only=True)
class MetaSettings(Options):
    """How agreement is measured."""

    panel: ClassVar[Panel] = Panel("Statistics", rare=("confidence", "seed", "min_kappa"))

    rows: Annotated[
        RowsChoice,
        Doc(
            "fair: no replies that are one of their own golds, and no references identical to the reply; all: every "
            "rated reply against every reference."
        ),
    ] = RowsChoice.FAIR
    draws: Annotated[int, Ge(1), Le(MAX_DRAWS), Doc("Draws of the bootstrap over contexts.")] = 10_000
    seed: ResamplingSeed = 1
    confidence: Confidence = 0.95
    min_kappa: Annotated[
        float | None,
        Ge(-1),
        Le(1),
        Metavar("X"),
        Doc("Leave out annotators whose mean κ with the others is lower."),
    ] = None
