"""Metrics that other packages add: found by their entry points, and checked before they are used.

A package names a `MetricInfo` in the group `refaug.metrics` (docs/extending.md). It is imported when its metric is
named, or when all metrics are listed; a package that is broken disturbs nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from refaug.core.errors import RefaugError
from refaug.core.installation import METRICS, Registration, broken, of_package, of_packages
from refaug.metrics.costs import LINEAR, UNSTATED
from refaug.metrics.metric_info import MetricInfo


@lru_cache(maxsize=256)  # requests name metrics that do not exist, too
def metric_of_package(name: str) -> MetricInfo | None:
    """Return the metric that a package adds under this name, or None.

    MissingPart names the package where it cannot be used, Conflict two that add the same name.
    """
    registration = of_package(METRICS, name, "metric")
    return None if registration is None else _loaded(registration)


def metrics_of_packages() -> tuple[list[MetricInfo], list[RefaugError]]:
    """Return all metrics that packages add, and what is wrong with those that cannot be used."""
    infos, errors = list[MetricInfo](), list[RefaugError]()
    for name in sorted(of_packages(METRICS)):
        try:
            info = metric_of_package(name)
        except RefaugError as error:
            errors.append(error)
        else:
            infos += [info] if info is not None else []
    return infos, errors


def _loaded(registration: Registration) -> MetricInfo:
    """Import what a package calls its metric, and check it."""
    whose = f"metric {registration.name} of package {registration.package}"
    info = registration.load("metric", MetricInfo)
    if info.name != registration.name:
        raise broken(whose, f"its MetricInfo has the name {info.name!r}")
    if info.cost is not LINEAR:
        return info
    if info.models:
        raise broken(whose, "it opens models and states no cost: pass cost=Cost(…) of refaug.metrics.costs")
    return replace(info, cost=UNSTATED)
