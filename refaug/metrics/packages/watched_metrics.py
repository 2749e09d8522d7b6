"""Metrics of other packages at work: what fails in them, or makes no sense, is told with the package's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from refaug.core.errors import MissingPart, RefaugError
from refaug.core.installation import Registration
from refaug.metrics.base import Floats, Indexes, Level, Metric, Prepared, References
from refaug.metrics.packages.separate_process import SeparateMetric, is_child
from refaug.metrics.single_reference import package_version

_ROUNDING = 1e-6  # by which a score may leave its range


@cache
def watched(kind: type[Metric], registration: Registration, *, is_separate: bool) -> type[Metric]:
    """Return the class of a package's metric, whose methods tell of faults and whose results are checked.

    A separate one reads texts in a child process; it cannot look at a whole set at once.
    """
    if not is_separate or is_child():
        return type(kind.__name__, (_Watched, kind), {"registration": registration})
    if kind.for_set is not Metric.for_set or kind.for_replies is not Metric.for_replies:
        raise MissingPart(
            f"metric {registration.name} of package {registration.package} looks at whole sets, and states no cost",
            remedy="have its authors pass cost=Cost(…) of refaug.metrics.costs",
        )
    return type(kind.__name__, (_Watched, SeparateMetric, kind), {"registration": registration})


class _Watched(Metric):
    """A base before the class of a package's metric."""

    registration: Registration

    def prepare(self, references: Sequence[References]) -> Prepared:
        try:
            prepared = super().prepare(references)  # type: ignore[safe-super]  # the package's
        except RefaugError:
            raise
        except Exception as error:  # whatever it is, it is the package's
            raise self._fault(f"preparing references ended with {error!r}") from error
        if not isinstance(prepared, Prepared) or prepared.items != len(references):
            raise self._fault(f"prepare returned {prepared!r:.100}, not a Prepared of {len(references):,} items")
        return prepared

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        try:
            rows = np.asarray(super().statistics(replies, prepared, reply_places, item_places), np.float64)  # type: ignore[safe-super]
        except RefaugError:
            raise
        except Exception as error:  # whatever it is, it is the package's
            raise self._fault(f"scoring ended with {error!r}") from error
        if rows.shape != (len(reply_places), len(self.columns)):
            shape, expected = rows.shape, (len(reply_places), len(self.columns))
            raise self._fault(f"statistics returned an array of the shape {shape}, and {expected} was expected")
        return rows

    def values(self, sums: Floats, level: Level) -> Floats:
        try:
            scores = np.asarray(super().values(sums, level), np.float64)  # type: ignore[safe-super]
        except RefaugError:
            raise
        except Exception as error:  # whatever it is, it is the package's
            raise self._fault(f"a {level.value} score ended with {error!r}") from error
        if scores.shape != sums.shape[:-1]:
            raise self._fault(f"values returned the shape {scores.shape}, and {sums.shape[:-1]} was expected")
        low, high = self.info.low - _ROUNDING, (np.inf if self.info.high is None else self.info.high + _ROUNDING)
        if (wrong := scores[~np.isnan(scores) & ~((scores >= low) & (scores <= high))]).size:
            raise self._fault(f"it gave the score {wrong.flat[0]:g}, and its range is {self.info.range}")
        return scores

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), **package_version(self.registration.package)}

    def _fault(self, what: str) -> MissingPart:
        whose = f"metric {self.info.name} of package {self.registration.package}"
        return MissingPart(f"{whose}: {what}", remedy="ask its authors, or score by other metrics")
