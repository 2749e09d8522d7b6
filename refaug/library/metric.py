"""A metric with its settings, for programs that score again and again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from refaug.core.errors import Usage
from refaug.library.inputs import Predictions
from refaug.library.results.scores import Scores
from refaug.library.scoring import score
from refaug.metrics.catalogue import find
from refaug.metrics.metric_info import MetricInfo


class Metric:
    """A metric with its index, rater and settings, named once.

        metric = refaug.Metric("upsilon-bleu", index="demo", rater="demo")
        metric.compute(predictions=replies, utterances=utterances, references=references).corpus

    It may be pickled, and used by several threads and by forked workers.
    """

    def __init__(self, name: str, *, home: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self.info: MetricInfo = find(name.partition(":")[0].strip())
        self.name = name
        if "metrics" in options or "metric" in options:
            raise Usage("a metric has one name", remedy="refaug.score(…, metrics=[…]) computes several at once")
        self._options: Mapping[str, Any] = {**options, "home": None if home is None else os.path.abspath(home)}  # noqa: PTH100

    def compute(
        self,
        items: Any = None,
        *,
        predictions: Predictions | None = None,
        references: Any = None,
        utterances: Any = None,
        **options: Any,
    ) -> Scores:
        """Return scores, as `refaug.score` does; options here come before those of the metric."""
        return score(
            items,
            predictions=predictions,
            references=references,
            utterances=utterances,
            metric=self.name,
            **{**self._options, **options},
        )

    def __repr__(self) -> str:
        options = "".join(f", {name}={option!r}" for name, option in self._options.items() if option is not None)
        return f"Metric({self.name!r}{options})"
