"""Every route of the API as a function: what is asked for in, a `Call` out; nothing is sent here.

What is None is left out of the request, so that the server's own default holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Callable, Literal, Optional, TypeVar, Union

from . import _models as models
from ._call import Answer, Call, _problem, path
from ._errors import BadAnswer, Usage
from ._items import Dialogues, From, Items, Metrics, OnError, Purpose, Replies

M = TypeVar("M", bound=models.Model)
Body = dict[str, Any]

PAGE = 200  # rows that a list is read by: the most that the server gives at once
SYSTEM = "model"  # what a single system is called where nobody has named it


# ── what goes in ──────────────────────────────────────────────────────────────────────────────────────────────────


def body(**said: Any) -> Body:
    """The object that is sent: without what is None, and `return_` for what Python cannot call by its name."""
    return {name.rstrip("_"): value for name, value in said.items() if value is not None}


def listed(items: Iterable[Any], what: str = "items") -> list[Any]:
    """Items as a list of plain objects; those that came from the server go back as they are."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise Usage(f"{what}: {models.short(items)} is not a list of them", remedy=f"{what}=[…], or anything iterable")
    return [one.to_dict() if isinstance(one, models.Model) else one for one in items]


def metric_list(metric: Optional[str], metrics: Metrics) -> Optional[list[str]]:
    """One metric, or several, or None: the one that suits the references."""
    if metric is not None and metrics is not None:
        raise Usage(f"metric={metric!r} and metrics={metrics!r}", remedy="one of the two")
    said = metric if metric is not None else metrics
    return [said] if isinstance(said, str) else None if said is None else list(said)


def by_system(replies: Replies, system: str = SYSTEM) -> dict[str, list[Optional[str]]]:
    """Replies of one system or of several, by its name."""
    if isinstance(replies, (str, bytes)) or not isinstance(replies, Iterable):
        raise Usage(f"replies: {models.short(replies)} is not a list of them", remedy='replies=["…", …]')
    if not isinstance(replies, Mapping):
        return {system: list(replies)}
    for name, texts in replies.items():
        if isinstance(texts, (str, bytes)):
            raise Usage(f"the replies of {name!r} are a text, not a list", remedy=f'replies={{"{name}": ["…", …]}}')
    return {name: list(texts) for name, texts in replies.items()}


def with_replies(items: Items, replies: Replies, system: str = SYSTEM) -> list[Any]:
    """Items with these replies instead of those that they may have; Usage where there are not as many as items."""
    found, given = listed(items), by_system(replies, system)
    for name, texts in given.items():
        if len(texts) != len(found):
            raise Usage(f"{len(texts):,} replies of {name!r} to {len(found):,} items", remedy="one for each; or None")
    made = []
    for place, item in enumerate(found):
        if not isinstance(item, Mapping):
            raise Usage(f"items[{place}]: {models.short(item)} is no item", remedy='{"utterance": "…", …}')
        told = {name: text for name, texts in given.items() if (text := texts[place]) is not None}
        made.append({**item, "replies": told})
    return made


def times_said(given: Optional[Mapping[str, Any]]) -> Optional[Body]:
    """Settings or an order, with moments as ISO 8601 says them."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise Usage(f"{models.short(given)} is no dict of settings", remedy='such as {"k": 5}')
    return {key: value.isoformat() if isinstance(value, date) else value for key, value in given.items()}


# ── what comes out ────────────────────────────────────────────────────────────────────────────────────────────────


def as_model(model: type[M]) -> Callable[[Answer], M]:
    """Reads an answer as one object."""
    return lambda answer: model.of(answer.json())


def as_page(model: type[M], key: str) -> Callable[[Answer], models.Rows[M]]:
    """Reads an answer as a page of objects."""

    def read(answer: Answer) -> models.Rows[M]:
        found = answer.json()
        following = found.get("next")
        if following is not None and not isinstance(following, str):
            raise TypeError("next is no text")
        return models.Rows([model.of(one) for one in found[key]], following)

    return read


def _as_scores(asked: Optional[Sequence[str]]) -> Callable[[Answer], models.Scores]:
    def read(answer: Answer) -> models.Scores:
        found = models.Scores.of(answer.json())
        if not found.scores and found.stats is None:
            raise KeyError("neither scores nor stats")
        found.__dict__["_asked"] = tuple(asked or ())
        return found

    return read


# ── scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────


def references(
    items: Items,
    *,
    index: Optional[str] = None,
    rater: Optional[str] = None,
    settings: Optional[Mapping[str, Any]] = None,
    on_error: Optional[OnError] = None,
) -> Call[models.References]:
    """POST /v1/references."""
    said = body(items=listed(items), index=index, rater=rater, settings=times_said(settings), on_error=on_error)
    return Call("POST", "/v1/references", as_model(models.References), body=said, timed=True)


def score(
    items: Items,
    *,
    replies: Optional[Replies] = None,
    system: str = SYSTEM,
    metric: Optional[str] = None,
    metrics: Metrics = None,
    references: Optional[From] = None,
    index: Optional[str] = None,
    rater: Optional[str] = None,
    ruber: Optional[str] = None,
    sample: Optional[str] = None,
    settings: Optional[Mapping[str, Any]] = None,
    draws: int = 0,
    confidence: Optional[float] = None,
    seed: Optional[int] = None,
    baseline: Optional[str] = None,
    explain: bool = False,
    percent: bool = False,
    language: Optional[str] = None,
    on_error: Optional[OnError] = None,
    return_: Optional[Literal["scores", "stats"]] = None,
) -> Call[models.Scores]:
    """POST /v1/scores."""
    asked = metric_list(metric, metrics)
    said = body(
        items=listed(items) if replies is None else with_replies(items, replies, system),
        metrics=asked,
        references=references,
        index=index,
        rater=rater,
        ruber=ruber,
        sample=sample,
        settings=times_said(settings),
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
    return Call("POST", "/v1/scores", _as_scores(asked), body=said, timed=True)


def combine(
    batches: Iterable[Any],
    *,
    draws: int = 0,
    confidence: Optional[float] = None,
    seed: Optional[int] = None,
    baseline: Optional[str] = None,
) -> Call[models.Scores]:
    """POST /v1/scores/combine."""
    said = body(
        batches=listed(batches, "batches"), draws=draws or None, confidence=confidence, seed=seed, baseline=baseline
    )
    return Call("POST", "/v1/scores/combine", _as_scores(None), body=said, timed=True)


def rate(
    pairs: Items, *, rater: Optional[str] = None, combine: Optional[str] = None, calibrated: bool = False
) -> Call[models.Ratings]:
    """POST /v1/ratings."""
    said = body(
        pairs=[_pair(one) for one in listed(pairs, "pairs")],
        rater=rater,
        combine=combine,
        calibrated=calibrated or None,
    )
    return Call("POST", "/v1/ratings", as_model(models.Ratings), body=said, timed=True)


def _pair(pair: Any) -> Any:
    """A test pair; candidates that are bare texts become objects."""
    if not isinstance(pair, Mapping) or not isinstance(pair.get("candidates"), (list, tuple)):
        return pair  # the server says what is wrong with it
    return {**pair, "candidates": [{"text": one} if isinstance(one, str) else one for one in pair["candidates"]]}


def metrics() -> Call[models.Rows[models.MetricInfo]]:
    """GET /v1/metrics."""
    return Call("GET", "/v1/metrics", as_page(models.MetricInfo, "metrics"))


# ── reference sets ────────────────────────────────────────────────────────────────────────────────────────────────


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
    said = body(
        items=listed(items),
        purpose=purpose,
        references=references,
        index=index,
        rater=rater,
        settings=times_said(settings),
        on_error=on_error,
    )
    return Call("POST", "/v1/reference-sets", _frozen_or_job, body=said, keyed=True, timed=True)


def _frozen_or_job(answer: Answer) -> Union[models.FrozenSet, models.Job]:
    found = answer.json()
    return models.Job.of(found) if answer.status == 202 else models.FrozenSet.of(found)


def set_of(job: models.Job) -> str:
    """The id of the set that a job has frozen."""
    found = (job.result or {}).get("set")
    if not isinstance(found, str):
        raise BadAnswer(f"job {job.id} is done, and its result names no set: {models.short(job.result)}")
    return found


def frozen_by(job: models.Job, queued: models.Job, found: models.ReferenceSet) -> models.FrozenSet:
    """The set that a job has frozen, with what was said when it was queued and when it was done."""
    result = job.result or {}
    return models.FrozenSet.of(
        {
            **found.to_dict(),
            "new": result.get("new") is True,
            "problems": [*queued.more.get("problems", []), *result.get("problems", [])],
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
) -> Call[models.FrozenSet]:
    """POST /v1/reference-sets/{id}/derive."""
    said = body(weights=weights, parrot=parrot, gold=gold, k=k)
    return Call("POST", path("v1", "reference-sets", id, "derive"), as_model(models.FrozenSet), body=said)


def list_sets(
    *, purpose: Optional[Purpose] = None, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.ListedSet]]:
    """GET /v1/reference-sets: one page."""
    query = {"purpose": purpose, "after": after, "limit": limit}
    return Call("GET", "/v1/reference-sets", as_page(models.ListedSet, "sets"), query=query)


def get_set(id: str) -> Call[models.ReferenceSet]:  # noqa: A002
    """GET /v1/reference-sets/{id}."""
    return Call("GET", path("v1", "reference-sets", id), as_model(models.ReferenceSet))


def download_set(id: str, *, format: Optional[Literal["zst", "jsonl"]] = None) -> Call[bytes]:  # noqa: A002
    """GET /v1/reference-sets/{id}/download: to be streamed, since it may be large."""
    where = path("v1", "reference-sets", id, "download")
    return Call("GET", where, lambda answer: answer.content, query={"format": format}, headers={"Accept": "*/*"})


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
    asked = metric_list(metric, metrics)
    said = body(
        items=None if items is None else listed(items),
        replies=by_system(replies, system),
        metrics=asked,
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
    return Call("POST", path("v1", "reference-sets", id, "scores"), _as_scores(asked), body=said, timed=True)


def withdraw_set(id: str, *, reason: str, instead: Optional[str] = None) -> Call[models.Withdrawal]:  # noqa: A002
    """DELETE /v1/reference-sets/{id}."""
    query = {"reason": reason, "instead": instead}
    return Call("DELETE", path("v1", "reference-sets", id), as_model(models.Withdrawal), query=query)


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def list_logs(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Log]]:
    """GET /v1/logs: one page."""
    return Call("GET", "/v1/logs", as_page(models.Log, "logs"), query={"after": after, "limit": limit})


def get_log(name: str) -> Call[models.Log]:
    """GET /v1/logs/{name}."""
    return Call("GET", path("v1", "logs", name), as_model(models.Log))


def post_dialogues(name: str, dialogues: Dialogues, *, on_error: Optional[OnError] = None) -> Call[models.Posted]:
    """POST /v1/logs/{name}/dialogues: what is sent twice is kept once."""
    found = [{"turns": list(one)} if isinstance(one, (list, tuple)) else one for one in listed(dialogues, "dialogues")]
    said = body(dialogues=found, on_error=on_error)
    return Call("POST", path("v1", "logs", name, "dialogues"), as_model(models.Posted), body=said)


def erase_dialogue(name: str, dialogue: str) -> Call[models.Job]:
    """DELETE /v1/logs/{name}/dialogues/{dialogue}."""
    return Call("DELETE", path("v1", "logs", name, "dialogues", dialogue), as_model(models.Job), keyed=True)


# ── indexes and raters ────────────────────────────────────────────────────────────────────────────────────────────


def list_indexes(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Index]]:
    """GET /v1/indexes: one page."""
    return Call("GET", "/v1/indexes", as_page(models.Index, "indexes"), query={"after": after, "limit": limit})


def get_index(name: str) -> Call[models.Index]:
    """GET /v1/indexes/{name}."""
    return Call("GET", path("v1", "indexes", name), as_model(models.Index))


def list_index_versions(
    name: str, *, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.IndexVersion]]:
    """GET /v1/indexes/{name}/versions: one page."""
    read = as_page(models.IndexVersion, "versions")
    return Call("GET", path("v1", "indexes", name, "versions"), read, query={"after": after, "limit": limit})


def publish_index(name: str, *, version: Optional[str] = None, rollback: bool = False) -> Call[models.Published]:
    """PUT /v1/indexes/{name}/current; the version before the published one is another one each time."""
    said = body(version=version, rollback=rollback or None)
    read = as_model(models.Published)
    return Call("PUT", path("v1", "indexes", name, "current"), read, body=said, repeatable=not rollback)


def list_raters(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Rater]]:
    """GET /v1/raters: one page."""
    return Call("GET", "/v1/raters", as_page(models.Rater, "raters"), query={"after": after, "limit": limit})


def get_rater(name: str) -> Call[models.Rater]:
    """GET /v1/raters/{name}."""
    return Call("GET", path("v1", "raters", name), as_model(models.Rater))


def list_rater_versions(
    name: str, *, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.RaterVersion]]:
    """GET /v1/raters/{name}/versions: one page."""
    read = as_page(models.RaterVersion, "versions")
    return Call("GET", path("v1", "raters", name, "versions"), read, query={"after": after, "limit": limit})


def publish_rater(name: str, *, version: Optional[str] = None, rollback: bool = False) -> Call[models.Published]:
    """PUT /v1/raters/{name}/current; as with indexes."""
    said = body(version=version, rollback=rollback or None)
    read = as_model(models.Published)
    return Call("PUT", path("v1", "raters", name, "current"), read, body=said, repeatable=not rollback)


# ── jobs and schedules ────────────────────────────────────────────────────────────────────────────────────────────


def start_job(kind: str, **order: Any) -> Call[models.Job]:
    """POST /v1/jobs."""
    said = {"kind": kind, **(times_said(order) or {})}
    return Call("POST", "/v1/jobs", as_model(models.Job), body=said, keyed=True)


def list_jobs(
    *, state: Optional[str] = None, kind: Optional[str] = None, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.Job]]:
    """GET /v1/jobs: one page."""
    query = {"state": state, "kind": kind, "after": after, "limit": limit}
    return Call("GET", "/v1/jobs", as_page(models.Job, "jobs"), query=query)


def get_job(id: str) -> Call[models.Job]:  # noqa: A002
    """GET /v1/jobs/{id}."""
    return Call("GET", path("v1", "jobs", id), as_model(models.Job))


def cancel_job(id: str) -> Call[models.Job]:  # noqa: A002
    """DELETE /v1/jobs/{id}: one that has ended stays as it is, so that it can be sent twice."""
    return Call("DELETE", path("v1", "jobs", id), as_model(models.Job))


def follow_job(id: str, *, after: int = 0) -> Call[bytes]:  # noqa: A002
    """GET /v1/jobs/{id}/events: to be streamed."""
    headers = {"Accept": "text/event-stream"}
    where = path("v1", "jobs", id, "events")
    return Call("GET", where, lambda answer: answer.content, query={"after": after}, headers=headers)


def list_schedules(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Schedule]]:
    """GET /v1/schedules: one page."""
    read = as_page(models.Schedule, "schedules")
    return Call("GET", "/v1/schedules", read, query={"after": after, "limit": limit})


def get_schedule(name: str) -> Call[models.Schedule]:
    """GET /v1/schedules/{name}."""
    return Call("GET", path("v1", "schedules", name), as_model(models.Schedule))


def put_schedule(
    name: str, *, cron: str, order: Mapping[str, Any], timezone: Optional[str] = None, enabled: Optional[bool] = None
) -> Call[models.Schedule]:
    """PUT /v1/schedules/{name}."""
    said = body(cron=cron, timezone=timezone, order=times_said(order), enabled=enabled)
    return Call("PUT", path("v1", "schedules", name), as_model(models.Schedule), body=said)


def delete_schedule(name: str) -> Call[None]:
    """DELETE /v1/schedules/{name}."""
    return Call("DELETE", path("v1", "schedules", name), _name_only)


def _name_only(answer: Answer) -> None:
    answer.json()["name"]


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────


def health() -> Call[models.Health]:
    """GET /healthz."""
    return Call("GET", "/healthz", as_model(models.Health))


def ready() -> Call[models.Ready]:
    """GET /readyz: that something is missing is an answer, too."""
    return Call("GET", "/readyz", _readiness, expected=(503,))


def _readiness(answer: Answer) -> models.Ready:
    found = answer.json()
    if answer.status == 503:
        if found.get("code") != "not_ready":
            raise _problem(answer)
        found = {**found, "status": "not ready"}
    return models.Ready.of(found)


def server_metrics() -> Call[str]:
    """GET /metrics: Prometheus' text."""
    return Call("GET", "/metrics", _text, headers={"Accept": "text/plain"})


def _text(answer: Answer) -> str:
    if not answer.headers.get("content-type", "").lower().startswith("text/plain"):
        answer.garbled("an answer that is not Prometheus' text")
    return answer.content.decode("utf-8")


def explain(code: str) -> Call[models.ProblemCode]:
    """GET /problems/{code}."""
    return Call("GET", path("problems", code), as_model(models.ProblemCode))
