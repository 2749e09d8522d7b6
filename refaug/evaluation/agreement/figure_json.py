"""The JSON of figures: an undefined one is null, with its reason beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from refaug.core.json_form import json_form
from refaug.metrics.statistics.agreement import GroupAgreement, SystemLevel
from refaug.metrics.statistics.correlation import Correlation, Spread, WilliamsTest
from refaug.metrics.statistics.resampling import Estimate


def without_none(values: Mapping[str, Any], *, keep: Sequence[str] = ()) -> dict[str, object]:
    """Return the values that are there, and the named ones in any case."""
    return {name: value for name, value in values.items() if value is not None or name in keep}


@json_form.register
def _(estimate: Estimate) -> Mapping[str, object]:
    interval = None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]
    more = {"interval": interval, "p": estimate.p, "undefined_draws": estimate.undefined or None, "why": estimate.why}
    return {"value": estimate.value, **without_none(more)}


@json_form.register
def _(correlation: Correlation) -> Mapping[str, object]:
    more = {"p": correlation.p, "n": correlation.n, "why": correlation.why}
    return {"value": correlation.value, **without_none(more)}


@json_form.register
def _(spread: Spread) -> Mapping[str, object]:
    ends = {"mean": spread.mean, "min": spread.lowest, "max": spread.highest}
    return {**ends, **without_none({"why": spread.why}), "each": json_form(spread.each)}


@json_form.register
def _(test: WilliamsTest) -> Mapping[str, object]:
    return without_none(asdict(test))


@json_form.register
def _(level: SystemLevel) -> Mapping[str, object]:
    return {
        **json_form(level.by_kind),
        "systems": [
            {"system": name, "score": score, "rating": rating}
            for name, score, rating in zip(level.systems, level.scores, level.ratings, strict=True)
        ],
        "rows": level.rows,
        "alone_in_context": level.alone,
    }


@json_form.register
def _(group: GroupAgreement) -> Mapping[str, object]:
    return {"size": group.size, "groups": group.groups, **json_form(group.by_kind)}
