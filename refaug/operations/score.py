"""Scoring test files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from refaug.operations.item_sources import ItemSources
from refaug.operations.operation import OwnedOperation
from refaug.operations.scoring_options import ClusterOptions, ScoringOptions


@dataclass(frozen=True, kw_only=True)
class Score(ItemSources, ScoringOptions, ClusterOptions, OwnedOperation):
    """Score the replies of one or several systems against their references."""

    operation: ClassVar[str] = "score"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.scoring:score_job"

    def check(self) -> None:
        """Find references as the metrics need them."""
        object.__setattr__(self, "metrics", self.metrics_or_default(self.metrics))
        super().check()

    def metrics_named(self) -> list[str]:
        """Return the metrics."""
        return list(self.metrics)

    def sources_named(self) -> list[str]:
        """Return the files of items."""
        return self.files
