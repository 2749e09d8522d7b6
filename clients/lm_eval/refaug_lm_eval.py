"""Metrics of refaug in tasks of lm-evaluation-harness.

A task names them by `!function refaug_lm_eval.NAME`, with NAME a metric whose hyphens are underscores: as
`process_results`, where documents are items with several or weighted references, or as `metric`, where they have one
target. What a metric returns for a document is a sealed record with score and signature, which stands in the samples
that `--log_samples` writes; `corpus` makes the corpus score of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import lm_eval.api.metrics  # noqa: F401  fills the registry, which is only filled where it is empty
from lm_eval.api.registry import register_aggregation, register_metric
from refaug import Usage
from refaug.library.harnesses import SampleScorer, compare, corpus_score
from refaug.metrics.catalogue import find_info
from refaug.scoring.score_files.harness_logs import DOC, item_of_doc

__all__ = ["Scored", "compare", "corpus"]

_AGGREGATION: Final = "refaug"
_REGISTERED: Final = ("refaug-1", "upsilon-bleu")  # by their own names, once this module is imported

corpus = register_aggregation(_AGGREGATION)(corpus_score)

Records = dict[str, dict[str, Any]]


class Scored:
    """One or more metrics of refaug, with the index and the rater that weigh references, if there are any.

    process_results = Scored("upsilon-bleu", "chrf", index="demo", rater="demo")
    """

    def __init__(self, *metrics: str, **options: Any) -> None:
        if not metrics:
            raise Usage("no metric is named", remedy='Scored("refaug-1")')
        self._scorers = {name: SampleScorer(name, **options) for name in metrics}
        self.__name__ = metrics[0]

    def __call__(
        self,
        doc: Mapping[str, Any] | None = None,
        results: Sequence[Any] = (),
        *,
        references: Sequence[str] = (),
        predictions: Sequence[str] = (),
    ) -> Records:
        """Return a record for each metric: of a document and its reply, or of a target and its reply."""
        replies = results if doc is not None else predictions
        if len(replies) != 1 or not isinstance(replies[0], str):
            raise Usage("several replies to one document", remedy="a filter take_first, and a task of generate_until")
        if doc is None:
            item: dict[str, Any] = {"references": list(references)}
        else:
            item = item_of_doc(doc)
            if not item["references"]:
                raise Usage(
                    f"a document without references, only {', '.join(doc)}",
                    remedy="a list in the field references, or the metric in metric_list, for tasks with one target",
                )
        golds = None if doc is None else DOC
        return {name: scorer.record(item, replies[0], golds=golds) for name, scorer in self._scorers.items()}


for _name in _REGISTERED:
    register_metric(metric=_name, higher_is_better=True, aggregation=_AGGREGATION)(Scored(_name))


def __getattr__(name: str) -> Scored:
    metric = name.replace("_", "-")
    if find_info(metric) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, and refaug no metric {metric}")
    return Scored(metric)
