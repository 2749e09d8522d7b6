"""Route of the metric catalogue."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Depends
from starlette.responses import Response

from refaug.metrics.catalogue import METRICS
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.parameters import Choice
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.dependencies import requires
from refaug.service.web.openapi import errors
from refaug.service.web.schemas.catalogue import MetricsOut

router = APIRouter(prefix="/v1", tags=["scoring"])


@router.get(
    "/metrics",
    dependencies=[Depends(requires(Scope.READ))],
    responses={200: {"model": MetricsOut}, **errors()},
)
def list_metrics() -> Response:
    """All metrics: what each needs, its range and direction, its parameters with defaults and choices."""
    return json_response({"metrics": _catalogue()})


@cache
def _catalogue() -> list[dict[str, object]]:
    return [_describe(info) for info in METRICS.values()]


def _describe(info: MetricInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "summary": info.summary,
        "references": info.uses.value,
        "range": [info.low, info.high],
        "higher_is_better": info.higher_is_better,
        "corpus_from": info.corpus.value,
        "needs": list(info.needs),
        "paper": info.paper,
        "parameters": [
            {
                "name": parameter.name,
                "default": parameter.default,
                "values": parameter.allowed,
                "choices": list(parameter.choices) if isinstance(parameter, Choice) else None,
                "help": parameter.help,
            }
            for parameter in info.parameters
        ],
    }
