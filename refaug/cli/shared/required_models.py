"""The models that the metrics of a command need, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence

from refaug.core.home import Settings


def require_models(
    home: Settings, specifications: Sequence[str], *, rater: str | None, index: str | None = None
) -> bool:
    """Say whether --rater is asked by a metric; raise Usage where a metric needs a model that nothing names."""
    from refaug.evaluation.metric_setup import metric_requests  # noqa: PLC0415  compiles

    requests = [metric_requests.MetricRequest.of(text, home) for text in specifications]
    metric_requests.require_models(requests, rater=rater, index=index)
    return any(request.rates_by_default for request in requests)
