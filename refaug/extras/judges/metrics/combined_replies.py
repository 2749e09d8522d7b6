"""The metric `judge-fit`: other metrics, each on its scale, added with weights that people's ratings gave.

The metric computes every component from the references and turns that the component looks at, and a judge adds their
values; a metric without a judge has settings and a signature, but refuses to score. A reply has no score where one of
its components has none.

A judge must not be asked about rows that it was fitted to: their scores would repeat the ratings. The judge knows
them, and with `seen=drop` they have no score but the problem `trained_on`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Final, Protocol

import numpy as np

from refaug.core.errors import Usage
from refaug.extras.judges.metrics.component_metrics import ComponentMetric, PreparedComponents, uses_of
from refaug.metrics.base import Floats, Indexes, Metric, Prepared, Problem, References
from refaug.metrics.metric_info import MetricInfo

FITTED_TO: Final = Problem("trained_on", "the judge was fitted to its context, or to this reply in it")


class CombinationJudge(Protocol):
    """A source of combined scores; the service implements it with a fitted judge."""

    @property
    def spec(self) -> str:
        """The name, version and content of the judge."""

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that a reply can get."""

    @property
    def components(self) -> tuple[Metric, ...]:
        """The metrics that are added, bound to their models."""

    def combine(self, values: Floats, replies: Sequence[str]) -> Floats:
        """Return the scores of replies from the values of the components (replies, components)."""

    def has_seen(self, turns: Sequence[str], references: Sequence[str], reply: str) -> bool:
        """Say whether the judge was fitted to this row."""


class CombinedReplies(ComponentMetric):
    """The scores of a combination of metrics; without a judge there are none."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = info
        self.settings = dict(settings)
        self.components: tuple[Metric, ...] = ()
        self._judge: CombinationJudge | None = None

    @property
    def model(self) -> str:
        """The name of the judge, as specifications and signatures write it."""
        if not self.settings["model"]:
            raise self.info.models[0].missing(self.info.name)
        return self.settings["model"]

    def with_judge(self, judge: CombinationJudge) -> CombinedReplies:
        """Return the metric with this judge, which the signature names."""
        copied = copy(self)
        names = "+".join(component.name for component in judge.components)
        copied.settings = {**self.settings, "model": judge.spec, "of": names}
        copied.components = judge.components
        copied._judge = judge  # noqa: SLF001
        low, high = judge.limits
        copied.info = replace(self.info, uses=uses_of(judge.components), low=low, high=high)
        return copied

    def prepare(self, references: Sequence[References]) -> PreparedComponents:
        """Prepare every component; an item has the problem of its first component that has one."""
        self._require_judge()
        components, problems = self.prepare_components(references), dict[int, Problem]()
        for component in components:
            problems = {**component.problems, **problems}
        return PreparedComponents.of(references, problems, components)

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score and a count for each row; rows that the judge was fitted to have none."""
        assert isinstance(prepared, PreparedComponents)
        judge = self._require_judge()
        pairs = list(zip(reply_places.tolist(), item_places.tolist(), strict=True))
        rows = [row for row, (reply, item) in enumerate(pairs) if not self._is_dropped(prepared, item, replies[reply])]
        scores = np.full(len(pairs), np.nan)
        if rows:
            values = self.component_values(replies, prepared, reply_places[rows], item_places[rows])
            scores[rows] = judge.combine(values, [replies[pairs[row][0]] for row in rows])
        return self.rows(scores)

    def problem_of(self, reply: str, prepared: Prepared, item_place: int) -> Problem:
        """Return why a reply has no score: the judge was fitted to it, or a component has none."""
        assert isinstance(prepared, PreparedComponents)
        if self._is_dropped(prepared, item_place, reply):
            return FITTED_TO
        if (problem := prepared.problems.get(item_place)) is not None:
            return problem
        reasons = (self.component_problem(reply, prepared, item_place, place) for place in range(len(self.components)))
        return next((problem for problem in reasons if problem is not None), self.undefined())

    def _is_dropped(self, prepared: PreparedComponents, item_place: int, reply: str) -> bool:
        return self.settings["seen"] == "drop" and self._require_judge().has_seen(*prepared.texts[item_place], reply)

    def remarks(self) -> tuple[str, ...]:
        """Return the remarks of the components, and a warning where rows that the judge was fitted to count."""
        own = ["judge-fit with seen=keep: scores of rows that it was fitted to count as well"]
        of_components = dict.fromkeys(remark for component in self.components for remark in component.remarks())
        return (*(own if self.settings["seen"] == "keep" else ()), *of_components)

    def _require_judge(self) -> CombinationJudge:
        if self._judge is None:
            raise Usage(f"{self.model} was not opened: {self.info.name} cannot score without its judge")
        return self._judge
