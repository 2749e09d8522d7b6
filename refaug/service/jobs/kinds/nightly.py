"""The nightly job: ingest new dialogues, update the index, check it, compare it with the old one, and publish it.

Each step is marked when it is done, so that a killed job resumes after it. The old version serves until the new one has
passed, and is kept afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, Usage
from refaug.indexer.building.update import Overtaken, publish_new
from refaug.operations.logs import RunNight
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import open_rater
from refaug.scoring.home.stored_artefacts import versions_for_judges
from refaug.scoring.items import BadItem, read_items
from refaug.scoring.metric_setup.metric_requests import baseline_setter, metrics_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.reference_sets.drift import rater_of, settings_of, shadow_score
from refaug.scoring.reference_sets.reference_set import ReferenceSet
from refaug.scoring.reference_sets.set_store import ReferenceSets, pinned_versions
from refaug.service.jobs.kinds.indexing import measure_recall, open_version, update_version
from refaug.service.jobs.kinds.ingesting import ingest_files, ingest_posted, workers_of
from refaug.service.jobs.kinds.job_context import JobContext, NotPublished, as_json
from refaug.service.jobs.kinds.sources import require_source, resolve_metric_files

_LOWER_LIMITS: Final = frozenset({"recall", "spearman"})  # lower limits; the others are upper limits


def nightly_job(order: RunNight, context: JobContext) -> Mapping[str, Any]:
    """Run all steps; CheckFailed if the new version exceeds a limit, or another was published meanwhile.

    A version with deletions is published in any case, with a warning, since deleted text must not go on being served.
    """
    stored_set, stages = _require_usable(order, context), context.stages
    facts: dict[str, object] = {"log": order.log, "index": order.index}
    facts["ingest"] = _ingest(order, context)
    update = facts["update"] = stages.run("update", lambda: update_version(order.index, order, context, publish=False))
    if update["version"] is None:
        return {**facts, "version": None, "published": False, "removed": _gc(order, context, None)}
    version = facts["version"] = update["version"]
    facts["recall"] = stages.run("recall", lambda: measure_recall(order.index, version, order, context))
    if stored_set is not None:
        facts["drift"] = stages.run("shadow", lambda: as_json(_measure_drift(order, stored_set, update, context)))
    failed = facts["failed"] = broken_limits(order, facts)
    if failed and not update["must_go"]:
        places_of(context.home).indexes.refuse(order.index, version, "; ".join(failed))
        facts |= {"published": False, "removed": _gc(order, context, update["before"])}
        raise NotPublished(
            f"index {order.index}@{version} was built but not published: {'; '.join(failed)}",
            remedy=f"{update['before']} goes on serving; if the new one is as it should be: "
            f"refaug artefacts publish index {order.index}@{version} --even-refused",
            facts=facts,
        )
    if failed:
        context.progress.warn(f"published all the same, since something was deleted: {'; '.join(failed)}")
    try:
        stages.run("publish", lambda: _publish(order, update["before"], version, context))
    except Overtaken as error:
        facts |= {"published": False, "removed": _gc(order, context, update["before"])}
        raise NotPublished(error.message, remedy=error.remedy, facts=facts) from error
    return {**facts, "published": True, "removed": _gc(order, context, update["before"])}


def _require_usable(order: RunNight, context: JobContext) -> ReferenceSet | None:
    """Check before the work what would stop it afterwards, and return the set to compare on, if there is one."""
    metrics_of(
        resolve_metric_files(order.metrics, context.home, context.serve), order.language, source=_vectors(context)
    )
    if (stored_set := _find_set(order, context)) is None:
        return None
    if settings_of(stored_set.manifest).needs_rater and _rater(order, stored_set, context) is None:
        raise Usage(f"references of the set {order.set} are to be rated, and no rater is named", remedy="name a rater")
    if order.replies is not None:
        require_source(order.replies, context.home, context.serve)
    return stored_set


def _find_set(order: RunNight, context: JobContext) -> ReferenceSet | None:
    """Return the order's set, or the one to use instead: an erasure that withdraws a set must not end all nights."""
    sets, name = ReferenceSets(context.home.reference_sets), order.set
    while name is not None:
        if (withdrawal := sets.withdrawal(sets.resolve(name))) is None:
            return sets.open(name)
        compared = f"set {withdrawal.instead} is used instead" if withdrawal.instead else "nothing is compared"
        context.progress.warn(f"the reference set {name} was withdrawn: {withdrawal.reason}; {compared}")
        name = withdrawal.instead
    return None


def _ingest(order: RunNight, context: JobContext) -> Mapping[str, Any]:
    """Ingest what was posted, after the sources if the order names any, and return one report."""
    stages, sources, workers = context.stages, order.sources, workers_of(order, context)

    def add_posted() -> Mapping[str, Any]:
        return as_json(ingest_posted(order.log, order, order.memory, workers, context))

    if not sources:
        return stages.run("ingest", add_posted)
    from_files = stages.run(
        "ingest", lambda: as_json(ingest_files(order.log, sources, order, order.memory, workers, context))
    )
    from_inbox = stages.run("ingest-posted", add_posted)
    joined = {name: [*from_files[name], *from_inbox.get(name, [])] for name in ("sources", "problems")}
    return {
        **from_files,
        **joined,
        "pairs_added": from_files["pairs_added"] + from_inbox["pairs_added"],
        "totals": from_inbox.get("totals", from_files["totals"]),
        "posted": from_inbox["posted"],
    }


def _rater(order: RunNight, stored_set: ReferenceSet, context: JobContext) -> str | None:
    """Return the rater that weighs, as name@version; NotFound if it does not exist."""
    spec = order.rater or rater_of(stored_set.manifest)
    return None if spec is None else "@".join(artefact_stores(context.home)["rater"].resolve(spec))


def _vectors(context: JobContext) -> ModelRegistry:
    """Return what opens the vectors that metrics name; they name no files of the server."""
    return ModelRegistry(context.home, allows_paths=False)


def _measure_drift(
    order: RunNight, stored_set: ReferenceSet, update: Mapping[str, Any], context: JobContext
) -> Mapping[str, Any]:
    """Compare the old and the new version on the set, with the old one's b for weighted forms without b."""
    threads, needs_rater = context.threads(order.threads), settings_of(stored_set.manifest).needs_rater
    rater = _rater(order, stored_set, context) if needs_rater else None
    before, version = update["before"], update["version"]
    based = baseline_setter(places_of(context.home).indexes, f"{order.index}@{before}", context.progress)
    metrics = metrics_of(
        resolve_metric_files(order.metrics, context.home, context.serve),
        order.language,
        set_baseline=based,
        source=_vectors(context),
    )
    with (
        open_version(context, order.index, before, threads) as old,
        open_version(context, order.index, version, threads) as new,
    ):
        comparison = shadow_score(
            stored_set,
            old,
            new,
            None if rater is None else open_rater(context.home, rater, threads=threads),
            metrics,
            None if order.replies is None else _replies(order.replies, context),
            context.progress,
        )
    return comparison.as_json()


def _replies(name: str, context: JobContext) -> dict[str, Mapping[str, str]]:
    """Return replies by item, from a file of items whose other fields are not used."""
    replies = dict[str, Mapping[str, str]]()
    for posted_item in read_items(require_source(name, context.home, context.serve), shown_name=name):
        if isinstance(posted_item, BadItem):
            raise BadInput(str(posted_item), remedy='every line needs an id, and "replies": {"system": "its reply"}')
        replies[posted_item.id] = posted_item.replies
    return replies


def broken_limits(order: RunNight, facts: Mapping[str, Any]) -> list[str]:
    """Return the exceeded limits in words; a figure that could not be computed exceeds its limit."""
    figures = {"recall": facts["recall"]["recall"], **facts.get("drift", {}).get("worst", {})}
    problems = []
    for name, limit in order.limits.stated_limits.items():
        figure, words = figures.get(name), name.replace("_", " ")
        if figure is None:
            problems.append(f"{words} could not be computed")
        elif name in _LOWER_LIMITS and figure < limit:
            problems.append(f"{words} is {figure:.4g}, at least {limit:.4g} is required")
        elif name not in _LOWER_LIMITS and figure > limit:
            problems.append(f"{words} is {figure:.4g}, at most {limit:.4g} is allowed")
    return problems


def _publish(order: RunNight, before: str, version: str, context: JobContext) -> dict[str, object]:
    context.progress.stage("publishing the index")
    publish_new(places_of(context.home), order.index, version, before=before, must_go=True)  # it has passed now
    return {"version": version}


def _gc(order: RunNight, context: JobContext, previous: str | None) -> list[str]:
    """Remove old versions, except the published one, the one before, and what frozen sets or judges name.

    Versions that did not pass count among the newest, so without this a bad night would leave none to roll back to.
    """
    context.progress.stage("removing old versions")
    indexes = places_of(context.home).indexes
    versions, serving = indexes.versions(order.index), indexes.current(order.index)
    older = versions[: versions.index(serving)] if serving in versions and serving == previous else []
    published = indexes.publications(order.index).published
    older = [version for version in older if version in published]
    spared = {previous, *older[-1:], *pinned_versions(context.home, "index", order.index)}
    spared |= set(versions_for_judges(context.home, "index", order.index))
    return indexes.gc(order.index, order.keep, lambda _name, version: version in spared)
