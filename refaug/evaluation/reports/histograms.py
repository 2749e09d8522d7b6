"""Histograms as SVG inside a page: no library, no script, and colours of the page's style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

BINS: Final = 20
_WIDTH, _HEIGHT, _BASE = 320.0, 120.0, 104.0  # in units of the drawing; below the base are the ends of the axis
_GAP: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class HistogramBar:
    """One bar, in units of the drawing."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True)
class ScoreHistogram:
    """How often scores fall into each of equal bins between two ends."""

    caption: str
    low: str
    high: str
    counts: Sequence[int]
    bars: Sequence[HistogramBar]
    bins: Sequence[tuple[str, str, int]]  # the ends of each bin that holds a score, and how many it holds
    width: float = _WIDTH
    height: float = _HEIGHT
    base: float = _BASE

    @classmethod
    def of(cls, caption: str, scores: NDArray[np.float64], ends: tuple[float, float]) -> Self:
        """Count scores between the ends; NaN is left out."""
        counts, edges = np.histogram(scores[~np.isnan(scores)], bins=BINS, range=ends)
        step, most = _WIDTH / BINS, max(1, int(counts.max()))
        heights = [round(float(count) / most * (_BASE - 4), 1) for count in counts]
        bars = [
            HistogramBar(x=round(place * step, 1), y=round(_BASE - height, 1), width=step - _GAP, height=height)
            for place, height in enumerate(heights)
        ]
        low, high = (f"{end:.4g}" for end in ends)
        bins = [
            (f"{start:.4g}", f"{end:.4g}", int(count))
            for start, end, count in zip(edges[:-1], edges[1:], counts, strict=True)
            if count
        ]
        return cls(caption=caption, low=low, high=high, counts=counts.tolist(), bars=bars, bins=bins)


def ends_of(scores: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Return ends that all scores lie between; 0 and 1 where these hold them."""
    defined = np.concatenate([each[~np.isnan(each)] for each in scores]) if scores else np.empty(0)
    if not len(defined) or (defined.min() >= 0 and defined.max() <= 1):
        return 0.0, 1.0
    low, high = float(defined.min()), float(defined.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)
