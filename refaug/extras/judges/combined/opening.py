"""Open a fitted judge with the metrics that it adds, each bound to the models that it was fitted with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from refaug.core.errors import Conflict, Corrupt, Usage
from refaug.core.progress import Progress
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.judges.combined.stored_judge import StoredJudge
from refaug.extras.judges.metrics.combined_replies import CombinedReplies
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_kinds import VectorOpener
from refaug.metrics.signature import Signature
from refaug.scoring.metric_setup.metric_requests import metrics_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import Bind

_CONTENTS: Final = ("vectors", "encoder")  # details of a signature that name what a score was computed with


def bound_components(stored: StoredJudge, source: VectorOpener, bind: Bind) -> list[Metric]:
    """Return the metrics of a judge with their models; Conflict where one of them is not what it was fitted with."""
    metrics = metrics_of(list(stored.metrics), None, source=source)
    features, signatures = len(stored.judge.features), stored.signatures
    if not len(metrics) == len(signatures) == features:
        raise Corrupt(
            f"{stored.name} adds {features} metrics, names {len(metrics)}, has {len(signatures)} signatures",
            remedy="fit the judge again",
        )
    bound = bind(metrics)
    for before, metric in zip(signatures, bound, strict=True):
        _require_same(stored.name, Signature.parse(before), Signature.of(metric))
    return bound


def _require_same(judge: str, before: Signature, now: Signature) -> None:
    """Raise Conflict where a metric has other settings, or other word vectors, than when the judge was fitted."""
    for key in dict.fromkeys([*before.settings, *now.settings]):
        if before.settings.get(key) != now.settings.get(key):
            raise Conflict(
                f"{judge} was fitted with {now.metric} of {key}:{before.settings.get(key)}, here it has "
                f"{key}:{now.settings.get(key)}",
                remedy="bring back what it was fitted with, or fit the judge again",
            )
    for key in _CONTENTS:
        if key in before.details and before.details[key] != now.details.get(key):
            raise Conflict(
                f"{judge} was fitted with {key} {before.details[key]}, and {now.details.get(key)} are here",
                remedy="bring back what it was fitted with, or fit the judge again",
            )


# ── The metric ────────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplyCombination:
    """A fitted judge that combines the values of its metrics, for one evaluation."""

    def __init__(self, stored: StoredJudge, components: Sequence[Metric]) -> None:
        self._stored = stored
        self.components = tuple(components)
        self._tokenizer = get_tokenizer(stored.judge.length_tokenizer)

    @property
    def spec(self) -> str:
        """The name, version and content of the judge."""
        return self._stored.spec

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that a reply can get."""
        return self._stored.judge.limits

    def combine(self, values: Floats, replies: Sequence[str]) -> Floats:
        """Return the scores of replies from the values of the metrics (replies, metrics)."""
        lengths = np.array([len(tokens) for tokens in self._tokenizer.tokenize_batch(list(replies))], dtype=np.float64)
        return self._stored.judge.score(values, lengths)

    def has_seen(self, turns: Sequence[str], references: Sequence[str], reply: str) -> bool:
        """Say whether the judge was fitted to this row."""
        return self._stored.seen.contains(turns, references, reply)


def with_fitted_judges(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    progress: Progress | None,  # noqa: ARG001
    bind: Bind,
) -> list[Metric]:
    """Return the metrics, those that need a fitted judge bound to the one that they name."""
    bound = list[Metric]()
    for metric in metrics:
        if not isinstance(metric, CombinedReplies):
            bound.append(metric)
            continue
        stored: StoredJudge = models.fitted_judge(metric.model)
        if asking := next((text for text in stored.metrics if text.partition(":")[0] == "judge"), None):
            raise Usage(
                f"{stored.name} adds {asking}, which calls an endpoint, and {metric.name} may not",
                remedy=f"refaug judge score judge-fit {stored.name} ITEMS",
            )
        bound.append(metric.with_judge(ReplyCombination(stored, bound_components(stored, models, bind))))
    return bound
