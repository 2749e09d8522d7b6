"""Route of the metric catalogue."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Depends
from starlette.responses import Response

from refaug.metrics.catalogue import METRICS
from refaug.metrics.packages.package_metrics import metrics_of_packages
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
    """All metrics: what each needs, its range and direction, its parameters with defaults and choices.

    Those that other packages add stand last.
    """
    return json_response({"metrics": _catalogue()})


@cache
def _catalogue() -> list[dict[str, object]]:
    return [info.as_json() for info in (*METRICS.values(), *metrics_of_packages()[0])]
