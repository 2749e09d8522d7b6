"""The night: new dialogues into the log, the index brought up to it, looked at, compared with the old one, published.

Each step is marked when it is done, so that a night that was killed goes on after its last one. The old version serves
until the new one has passed, and stays beside it afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from core.errors import BadInput, Usage
from core.items import BadItem, read_items
from indexer.update import publish_version
from service.artefacts import stored
from service.asked_metrics import based_in, metrics_of
from service.drift import rater_of, settings_of, shadow
from service.job_kinds.indexing import opened_version, recall_of, updated
from service.job_kinds.ingesting import ingest_files, ingest_posted
from service.job_kinds.orders import NightlyJob
from service.job_kinds.sources import metrics_within, require_source
from service.job_kinds.work import NotPublished, Work, plain
from service.rating import open_rater
from service.reference_sets import ReferenceSets
from service.retrieval import cores, places_of

_AT_LEAST: Final = frozenset({"recall", "spearman"})  # limits from below; the others are from above


def nightly_job(order: NightlyJob, work: Work) -> Mapping[str, Any]:
    """All steps; CheckFailed where the new version is beyond a limit, and the old one goes on serving.

    One that knows of a deletion is published all the same, with a warning: what was deleted must not go on serving.
    """
    _require_usable(order, work)
    stages = work.stages
    result: dict[str, Any] = {"log": order.log, "index": order.index}
    result["ingest"] = stages.run("ingest", lambda: plain(_ingested(order, work)))
    update = result["update"] = stages.run("update", lambda: updated(order.index, order, work, publish=False))
    if update["version"] is None:
        return {**result, "version": None, "published": False, "removed": _gc(order, work, None)}
    version = result["version"] = update["version"]
    result["recall"] = stages.run("recall", lambda: recall_of(order.index, version, order, work))
    if order.set is not None:
        result["drift"] = stages.run("shadow", lambda: plain(_drift(order, update, work)))
    failed = result["failed"] = broken(order, result)
    if failed and not update["must_go"]:
        result |= {"published": False, "removed": _gc(order, work, update["before"])}
        raise NotPublished(
            f"index {order.index}@{version} was built but not published: {'; '.join(failed)}",
            remedy=f"{update['before']} goes on serving; publish {order.index}@{version} if it is as it should be",
            result=result,
        )
    if failed:
        work.progress.warn(f"published all the same, since something was deleted: {'; '.join(failed)}")
    stages.run("publish", lambda: _published(order, version, work))
    return {**result, "published": True, "removed": _gc(order, work, update["before"])}


def _require_usable(order: NightlyJob, work: Work) -> None:
    """Find out before the work what would stop it afterwards."""
    metrics_of(metrics_within(order.metrics, work.home, work.serve), order.language)
    if order.set is None:
        return
    stored_set = ReferenceSets(work.home.reference_sets).open(order.set)
    if settings_of(stored_set.manifest).needs_rater and _rater(order, work) is None:
        raise Usage(f"references of the set {order.set} are to be rated, and no rater is named", remedy="name a rater")
    if order.replies is not None:
        require_source(order.replies, work.home, work.serve)


def _ingested(order: NightlyJob, work: Work) -> Mapping[str, Any]:
    if order.sources is None:
        return ingest_posted(order.log, order, order.memory, order.workers, work)
    return ingest_files(order.log, order.sources, order, order.memory, order.workers, work)


def _rater(order: NightlyJob, work: Work) -> str | None:
    """The rater that weighs, as name@version; NotFound where it is not here."""
    spec = order.rater or rater_of(ReferenceSets(work.home.reference_sets).open(str(order.set)).manifest)
    return None if spec is None else "@".join(stored(work.home)["rater"].resolve(spec))


def _drift(order: NightlyJob, update: Mapping[str, Any], work: Work) -> Mapping[str, Any]:
    """Old and new on the set, with the b of the old one for weighted forms that have none."""
    assert order.set is not None
    stored_set, threads = ReferenceSets(work.home.reference_sets).open(order.set), order.threads or cores()
    needs_rater = settings_of(stored_set.manifest).needs_rater
    rater = _rater(order, work) if needs_rater else None
    before, version = update["before"], update["version"]
    based = based_in(places_of(work.home).indexes, f"{order.index}@{before}", work.progress)
    metrics = metrics_of(metrics_within(order.metrics, work.home, work.serve), order.language, based=based)
    with (
        opened_version(work, order.index, before, order.threads) as old,
        opened_version(work, order.index, version, order.threads) as new,
    ):
        found = shadow(
            stored_set,
            old,
            new,
            None if rater is None else open_rater(work.home, rater, threads=threads),
            metrics,
            None if order.replies is None else _replies(order.replies, work),
            work.progress,
        )
    return found.as_json()


def _replies(name: str, work: Work) -> dict[str, Mapping[str, str]]:
    """Replies by item, of a file of items of which nothing else is looked at."""
    found = dict[str, Mapping[str, str]]()
    for item in read_items(require_source(name, work.home, work.serve), called=name):
        if isinstance(item, BadItem):
            raise BadInput(str(item), remedy='every line needs an id, and "replies": {"system": "its reply"}')
        found[item.id] = item.replies
    return found


def broken(order: NightlyJob, result: Mapping[str, Any]) -> list[str]:
    """The limits that are not kept, in words; a figure that could not be computed keeps to none."""
    found = {"recall": result["recall"]["recall"], **result.get("drift", {}).get("worst", {})}
    told = []
    for name, limit in order.limits.model_dump().items():
        if limit is None:
            continue
        value, said = found[name], name.replace("_", " ")
        if value is None:
            told.append(f"{said} could not be computed")
        elif name in _AT_LEAST and value < limit:
            told.append(f"{said} is {value:.4g}, at least {limit:.4g} is asked for")
        elif name not in _AT_LEAST and value > limit:
            told.append(f"{said} is {value:.4g}, at most {limit:.4g} is allowed")
    return told


def _published(order: NightlyJob, version: str, work: Work) -> dict[str, Any]:
    work.progress.stage("publishing the index")
    if places_of(work.home).indexes.current(order.index) != version:
        publish_version(places_of(work.home), order.index, version)
    return {"version": version}


def _gc(order: NightlyJob, work: Work, previous: str | None) -> list[str]:
    """Old versions go; what serves stays, and the one that served before it.

    Versions that did not pass count among the newest, so after a bad night there would be nothing to roll back to.
    """
    work.progress.stage("removing old versions")
    indexes = places_of(work.home).indexes
    there, serving = indexes.versions(order.index), indexes.current(order.index)
    older = there[: there.index(serving)] if serving in there and serving == previous else []
    spared = {previous, *older[-1:]}
    return indexes.gc(order.index, order.keep, lambda _name, version: version in spared)


WORK: Final = {"nightly": nightly_job}
