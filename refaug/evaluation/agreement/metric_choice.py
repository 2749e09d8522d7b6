"""The metrics that are compared: each once, however it is written, and which of them is the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from refaug.evaluation.agreement.records import ComparedMetric
from refaug.metrics.base import Metric
from refaug.metrics.signature import Signature


def choose_metrics(
    specifications: Sequence[str],
    baseline: str | None,
    build: Callable[[str], Metric],
    names: Mapping[str, str] | None = None,
) -> tuple[list[ComparedMetric], str]:
    """Return the metrics in the order named, and the name of the baseline, which comes first where it is none of them.

    `names` are the names in tables; without it they are the specifications.
    """
    texts = list(dict.fromkeys([*([baseline] if baseline is not None else []), *specifications]))
    shown = names if names is not None else {text: text.strip() for text in texts}
    metrics = {text: build(text) for text in texts}
    by_signature = dict[str, ComparedMetric]()
    for text in specifications:
        compared = ComparedMetric(name=shown[text], metric=metrics[text])
        by_signature.setdefault(Signature.of(compared.metric).full, compared)
    if baseline is None:
        return list(by_signature.values()), next(iter(by_signature.values())).name
    same_as_baseline = by_signature.get(Signature.of(metrics[baseline]).full)
    if same_as_baseline is not None:
        return list(by_signature.values()), same_as_baseline.name
    return [ComparedMetric(name=shown[baseline], metric=metrics[baseline]), *by_signature.values()], shown[baseline]
