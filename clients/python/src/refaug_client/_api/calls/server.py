"""The calls about the server itself."""

from __future__ import annotations

from refaug_client._api import models
from refaug_client._http.call import Answer, Call, error_of, path

from .readers import read_model


def health() -> Call[models.Health]:
    """GET /healthz."""
    return Call("GET", "/healthz", read_model(models.Health))


def ready() -> Call[models.Ready]:
    """GET /readyz: a 503 that names what is missing is an answer, too."""
    return Call("GET", "/readyz", _read_readiness, expected=(503,))


def _read_readiness(answer: Answer) -> models.Ready:
    document = answer.json()
    if answer.status == 503:
        if document.get("code") != "not_ready":
            raise error_of(answer)
        document = {**document, "status": "not ready"}
    return models.Ready.of(document)


def server_metrics() -> Call[str]:
    """GET /metrics: text in the format of Prometheus."""
    return Call("GET", "/metrics", _read_text, headers={"Accept": "text/plain"})


def _read_text(answer: Answer) -> str:
    if not answer.headers.get("content-type", "").lower().startswith("text/plain"):
        answer.refuse("an answer that is not Prometheus' text")
    return answer.content.decode("utf-8")


def explain(code: str) -> Call[models.ProblemCode]:
    """GET /problems/{code}."""
    return Call("GET", path("problems", code), read_model(models.ProblemCode))
