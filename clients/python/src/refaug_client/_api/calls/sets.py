"""The calls about reference sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

from refaug_client._api import models
from refaug_client._api.items import From, Items, Metrics, OnError, Purpose, Replies
from refaug_client._core.errors import BadAnswer
from refaug_client._http.call import Answer, Call, path

from .bodies import PAGE, SYSTEM, by_system, format_times, metric_list, request_body, to_list
from .readers import read_model, read_page, read_scores


def freeze_set(
    items: Items,
    *,
    purpose: Purpose,
    references: Optional[From] = None,
    index: Optional[str] = None,
    rater: Optional[str] = None,
    settings: Optional[Mapping[str, Any]] = None,
    on_error: Optional[OnError] = None,
) -> Call[Union[models.FrozenSet, models.Job]]:
    """POST /v1/reference-sets: the set, or, where there are many items, the job that freezes them."""
    document = request_body(
        items=to_list(items),
        purpose=purpose,
        references=references,
        index=index,
        rater=rater,
        settings=format_times(settings),
        on_error=on_error,
    )
    return Call("POST", "/v1/reference-sets", _read_set_or_job, body=document, keyed=True, timed=True)


def _read_set_or_job(answer: Answer) -> Union[models.FrozenSet, models.Job]:
    document = answer.json()
    return models.Job.of(document) if answer.status == 202 else models.FrozenSet.of(document)


def frozen_set_id(job: models.Job) -> str:
    """Return the id of the set that a job has frozen."""
    set_id = (job.result or {}).get("set")
    if not isinstance(set_id, str):
        raise BadAnswer(f"job {job.id} is done, and its result names no set: {models.shorten(job.result)}")
    return set_id


def frozen_set_from_job(job: models.Job, queued: models.Job, stored: models.ReferenceSet) -> models.FrozenSet:
    """Return the set that a job has frozen, with the warnings and problems of the call and of the job."""
    job_result = job.result or {}
    return models.FrozenSet.of(
        {
            **stored.to_dict(),
            "new": job_result.get("new") is True,
            "problems": [*queued.more.get("problems", []), *job_result.get("problems", [])],
            "warnings": list(queued.more.get("warnings", [])),
        }
    )


def derive_set(
    id: str,  # noqa: A002  the wire's name
    *,
    weights: Optional[str] = None,
    parrot: Union[str, float, None] = None,
    gold: Optional[str] = None,
    k: Optional[int] = None,
    people: Optional[Sequence[Mapping[str, Any]]] = None,
) -> Call[models.FrozenSet]:
    """POST /v1/reference-sets/{id}/derive."""
    document = request_body(weights=weights, parrot=parrot, gold=gold, k=k, people=people)
    return Call("POST", path("v1", "reference-sets", id, "derive"), read_model(models.FrozenSet), body=document)


def list_sets(
    *, purpose: Optional[Purpose] = None, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.ListedSet]]:
    """GET /v1/reference-sets: one page."""
    query = {"purpose": purpose, "after": after, "limit": limit}
    return Call("GET", "/v1/reference-sets", read_page(models.ListedSet, "sets"), query=query)


def get_set(id: str) -> Call[models.ReferenceSet]:  # noqa: A002
    """GET /v1/reference-sets/{id}."""
    return Call("GET", path("v1", "reference-sets", id), read_model(models.ReferenceSet))


def download_set(id: str, *, format: Optional[Literal["zst", "jsonl"]] = None) -> Call[bytes]:  # noqa: A002
    """GET /v1/reference-sets/{id}/download: to be streamed, since it may be large."""
    route = path("v1", "reference-sets", id, "download")
    return Call("GET", route, lambda answer: answer.content, query={"format": format}, headers={"Accept": "*/*"})


def score_set(
    id: str,  # noqa: A002
    replies: Replies,
    *,
    items: Optional[Iterable[str]] = None,
    system: str = SYSTEM,
    metric: Optional[str] = None,
    metrics: Metrics = None,
    draws: int = 0,
    confidence: Optional[float] = None,
    seed: Optional[int] = None,
    baseline: Optional[str] = None,
    explain: bool = False,
    percent: bool = False,
    language: Optional[str] = None,
    on_error: Optional[OnError] = None,
    return_: Optional[Literal["scores", "values", "stats"]] = None,
) -> Call[models.Scores]:
    """POST /v1/reference-sets/{id}/scores."""
    specifications = metric_list(metric, metrics)
    document = request_body(
        items=None if items is None else to_list(items),
        replies=by_system(replies, system),
        metrics=specifications,
        draws=draws or None,
        confidence=confidence,
        seed=seed,
        baseline=baseline,
        explain=explain or None,
        percent=percent or None,
        language=language,
        on_error=on_error,
        return_=return_,
    )
    return Call(
        "POST", path("v1", "reference-sets", id, "scores"), read_scores(specifications), body=document, timed=True
    )


def withdraw_set(id: str, *, reason: str, instead: Optional[str] = None) -> Call[models.Withdrawal]:  # noqa: A002
    """DELETE /v1/reference-sets/{id}."""
    query = {"reason": reason, "instead": instead}
    return Call("DELETE", path("v1", "reference-sets", id), read_model(models.Withdrawal), query=query)
