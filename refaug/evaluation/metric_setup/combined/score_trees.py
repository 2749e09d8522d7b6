"""Small trees of a boosted judge: each asks two questions of the metrics of a reply, and adds one of four numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from refaug.metrics.base import Floats

_QUESTIONS, _LEAVES = 3, 4  # the first question, and one on each side of it


@dataclass(frozen=True, kw_only=True)
class ScoreTree:
    """Whether a metric is above a threshold, first for all replies, then for each side; what each end adds.

    `gains` say by how much each question lowered the squared error of the training rows.
    """

    features: tuple[int, ...]  # the first question, the one below it, the one above it
    thresholds: tuple[float, ...]
    leaves: tuple[float, ...]  # from below both thresholds to above both
    gains: tuple[float, ...]

    def score(self, design: Floats) -> Floats:
        """Return what the tree adds to each row of metrics (rows, features)."""
        features, thresholds = np.array(self.features), np.array(self.thresholds)
        is_above = (design[:, features[0]] > thresholds[0]).astype(np.int64)
        rows = np.arange(len(design))
        is_above_next = design[rows, features[1 + is_above]] > thresholds[1 + is_above]
        return np.asarray(np.array(self.leaves)[2 * is_above + is_above_next])

    def as_json(self) -> dict[str, object]:
        """Return everything that scoring needs."""
        return {
            "features": list(self.features),
            "thresholds": list(self.thresholds),
            "leaves": list(self.leaves),
            "gains": list(self.gains),
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any], feature_count: int) -> Self:
        """Read what `as_json` returned; raise ValueError for anything else."""
        tree = cls(
            features=tuple(map(int, saved["features"])),
            thresholds=finite_numbers(saved["thresholds"]),
            leaves=finite_numbers(saved["leaves"]),
            gains=finite_numbers(saved["gains"]),
        )
        sizes = (len(tree.features), len(tree.thresholds), len(tree.gains), len(tree.leaves))
        if sizes != (_QUESTIONS, _QUESTIONS, _QUESTIONS, _LEAVES):
            raise ValueError(f"a tree with {sizes} features, thresholds, gains and leaves")
        if any(not 0 <= feature < feature_count for feature in tree.features):
            raise ValueError(f"a tree asks for the metrics {tree.features} of {feature_count}")
        return tree


def finite_numbers(numbers: Sequence[Any]) -> tuple[float, ...]:
    """Return the numbers; raise ValueError where one of them is not finite."""
    read = tuple(float(number) for number in numbers)
    if not np.isfinite(read).all():
        raise ValueError("a number that is not finite")
    return read
