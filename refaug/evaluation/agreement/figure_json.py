"""The JSON of single figures: an undefined one is null, with its reason beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refaug.metrics.statistics.correlation import Correlation, Spread
from refaug.metrics.statistics.resampling import Estimate


def without_none(values: Mapping[str, Any], *, keep: Sequence[str] = ()) -> dict[str, object]:
    """Return the values that are there, and the named ones in any case."""
    return {name: value for name, value in values.items() if value is not None or name in keep}


def estimate_json(estimate: Estimate) -> dict[str, object]:
    """Return a figure with its interval."""
    interval = None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]
    more = {"interval": interval, "p": estimate.p, "undefined_draws": estimate.undefined or None, "why": estimate.why}
    return {"value": estimate.value, **without_none(more)}


def correlation_json(correlation: Correlation) -> dict[str, object]:
    """Return a correlation with its p."""
    more = {"p": correlation.p, "n": correlation.n, "why": correlation.why}
    return {"value": correlation.value, **without_none(more)}


def estimate_or_correlation_json(figure: Estimate | Correlation) -> dict[str, object]:
    """Return a figure of either record."""
    return correlation_json(figure) if isinstance(figure, Correlation) else estimate_json(figure)


def spread_json(spread: Spread) -> dict[str, object]:
    """Return the extremes, then each correlation."""
    return {
        "mean": spread.mean,
        "min": spread.lowest,
        "max": spread.highest,
        **without_none({"why": spread.why}),
        "each": {str(name): correlation_json(correlation) for name, correlation in spread.each.items()},
    }
