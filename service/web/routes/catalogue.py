"""The metrics that can be asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from metrics.catalogue import METRICS, MetricInfo
from metrics.parameters import Choice
from service.keys import Scope
from service.web.answers import json_answer
from service.web.deps import requires
from service.web.openapi import errors
from service.web.schemas.catalogue import MetricsOut

router = APIRouter(prefix="/v1", tags=["scoring"])


@router.get(
    "/metrics",
    dependencies=[Depends(requires(Scope.READ))],
    responses={200: {"model": MetricsOut}, **errors()},
)
def list_metrics() -> Response:
    """All metrics: what each needs, its range and direction, its parameters with defaults and choices."""
    return json_answer({"metrics": _catalogue()})


@cache
def _catalogue() -> list[dict[str, Any]]:
    return [_described(info) for info in METRICS.values()]


def _described(info: MetricInfo) -> dict[str, Any]:
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
                "name": one.name,
                "default": one.default,
                "values": one.allowed,
                "choices": list(one.choices) if isinstance(one, Choice) else None,
                "help": one.help,
            }
            for one in info.parameters
        ],
    }
