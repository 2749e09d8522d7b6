"""The job that erases dialogues and speakers from the inbox, a log, its indexes, frozen sets, and evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute

from refaug.core.artefacts.kinds import encodings_in
from refaug.core.artefacts.versions import report_change
from refaug.core.backoff import Backoff, retry
from refaug.core.errors import BadInput, CheckFailed, Conflict, Corrupt, Locked, NotFound, SourceChanged, Withdrawn
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.update import require_nothing_erased, update_index
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest
from refaug.logs.deletion import delete
from refaug.logs.manifest import MANIFEST
from refaug.logs.store import StoredLog
from refaug.operations.logs import Erase
from refaug.scoring.home.indexes import places_of
from refaug.scoring.items import BadItem
from refaug.scoring.reference_sets.reference_set import ReferenceSet, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.score_views.score_view import open_view
from refaug.service.evaluations.evaluation_store import SCORES, EvaluationStore
from refaug.service.jobs.inbox import Inbox
from refaug.service.jobs.kinds.job_context import JobContext, as_json

_PAIRS: Final = "pairs.txt"  # ids of all erased pairs, until the sets were searched
_WAIT_S: Final = 600.0  # for another command on the same log or index
_READERS_S: Final = 120.0  # for requests and jobs that read older versions
_RETRY_S: Final = 0.5

T = TypeVar("T")


def erase_job(order: Erase, context: JobContext) -> Mapping[str, Any]:
    """Erase everywhere, step by step; finished steps are not repeated."""
    stages = context.stages
    posted = Inbox(context.home, context.serve)
    is_there = (context.home.logs / order.log / MANIFEST).exists()
    if not is_there and not posted.waiting(order.log)["requests"]:
        StoredLog.open(context.home.logs, order.log)  # NotFound, with the names that there are
    is_unbroken = stages.lacks("begun")
    stages.run("begun", dict)
    context.progress.stage("posted dialogues")
    waiting = stages.run("posted", lambda: _retry_while_locked(lambda: _erase_from_inbox(posted, order)))
    if waiting["dialogues"]:
        _report_erasure(order)
    stages.run("pairs", lambda: _write_pairs(order, context) if is_there else {"pairs": 0})
    context.progress.stage("the log")
    removed = stages.run(
        "log", lambda: _retry_while_locked(lambda: _erase_from_log(order, context)) if is_there else {}
    )
    _report_erasure(order)
    missing = _missing_names(waiting, removed) if is_unbroken else {}  # a broken run may have found them
    for noun, number in missing.items():
        if number:
            context.progress.warn(
                f"{noun} to be erased of which log {order.log} and what waits for it hold nothing: {number:,} of "
                f"{len(getattr(order, noun)):,}"
            )
    # Sets come before indexes: an index that cannot be updated must not keep sets in use.
    stages.run("sets", lambda: _withdraw_sets(order, context))
    indexes = stages.run("indexes", lambda: {"of": as_json_list(_erase_from_indexes(order, context))})
    removed_later = stages.run("held versions", lambda: _remove_held(indexes["of"], context))
    # Others may have been frozen meanwhile, from those versions; the sets withdrawn before are listed again.
    sets = stages.run("later sets", lambda: _withdraw_sets(order, context))
    evaluations = stages.run("evaluations", lambda: {"of": as_json_list(_remove_evaluations(order, context))})
    (stages.folder / _PAIRS).unlink(missing_ok=True)
    return {
        "log": order.log,
        "posted": waiting["dialogues"],
        "removed": {name: value for name, value in removed.items() if name != "seconds"},
        "not_found": missing,
        "indexes": [
            {**facts, "removed": facts["removed"] + removed_later.get(facts["index"], []), "held": []}
            for facts in indexes["of"]
        ],
        "sets": sets["of"],
        "unreadable_sets": sets["unreadable"],
        "evaluations": evaluations["of"],
    }


def _report_erasure(order: Erase) -> None:
    """Report the erasure with its counts; names of speakers are in the order alone, until the job is done."""
    counts = {"dialogues": len(order.dialogues), "speakers": len(order.speakers)}
    report_change("erase", f"log {order.log}", **counts)


def as_json_list(values: Iterator[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Return the values as a list of JSON objects."""
    return [as_json(one) for one in values]


def _retry_while_locked(do: Callable[[], T]) -> T:
    """Wait for other work on the same artefact: an incomplete erasure would be worse than a late one."""
    return retry(do, on=Locked, backoff=Backoff(_RETRY_S, _RETRY_S), within_s=_WAIT_S)


# ── The inbox and the log ─────────────────────────────────────────────────────────────────────────────────────────────


def _erase_from_inbox(posted: Inbox, order: Erase) -> dict[str, object]:
    """Return what was found, by the places of the names in the order."""
    erasure = posted.erase(order.log, dialogues=order.dialogues, speakers=order.speakers)
    return {
        "dialogues": erasure.changed,
        "found": {
            "dialogues": [name in erasure.dialogues for name in order.dialogues],
            "speakers": [name in erasure.speakers for name in order.speakers],
        },
    }


def _missing_names(waiting: Mapping[str, Any], removed: Mapping[str, Any]) -> dict[str, int]:
    """Return how many dialogues and speakers of the order were found nowhere."""
    return {
        noun: sum(
            not was_waiting and not pairs
            for was_waiting, pairs in zip(were_waiting, removed.get(noun) or [0] * len(were_waiting), strict=True)
        )
        for noun, were_waiting in waiting.get("found", {}).items()
    }


def _write_pairs(order: Erase, context: JobContext) -> dict[str, object]:
    """Write down the ids of erased pairs while the log still has them: sets refer to pairs by id only.

    Pairs of sets that the log has no more are among them: an earlier deletion did not reach those sets.
    """
    log, count = StoredLog.open(context.home.logs, order.log), 0
    dialogues, speakers = pa.array(order.dialogues, pa.string()), pa.array(order.speakers, pa.string())
    in_sets = _pairs_in_sets(order.log, context)
    of_sets = pa.array(sorted(set(in_sets.values())), pa.string())
    with (context.stages.folder / _PAIRS).open("w", encoding="utf-8", errors="backslashreplace") as file:
        for batch in log.batches(["dialogue", "position", "utterance_speaker", "response_speaker"]):
            hits = pa.compute.is_in(batch["dialogue"], dialogues)
            for side in ("utterance_speaker", "response_speaker"):
                hits = pa.compute.or_(hits, pa.compute.is_in(batch[side], speakers))
            for row in batch.filter(hits).select(["dialogue", "position"]).to_pylist():
                file.write(f"{_pair_line(order.log, row['dialogue'], row['position'])}\n")
                count += 1
            present = batch.filter(pa.compute.is_in(batch["dialogue"], of_sets)).select(["dialogue", "position"])
            for row in present.to_pylist():
                in_sets.pop(_pair_line(order.log, row["dialogue"], row["position"]), None)
        file.writelines(f"{line}\n" for line in in_sets)
    return {"pairs": count + len(in_sets)}


def _pairs_in_sets(log: str, context: JobContext) -> dict[str, str]:
    """Return the pairs of a log in sets in use, each with its dialogue.

    A set of an index that is not here is left out: it may come from a home with another log of this name.
    """
    sets, indexes, pairs = ReferenceSets(context.home.reference_sets), places_of(context.home).indexes.names(), {}
    for name in sets.ids():
        with suppress(Withdrawn, Corrupt):
            stored = sets.open(name)
            if stored.manifest.provenance.get("index", "").partition("@")[0] in indexes:
                for reference in chain.from_iterable(set_item.references for set_item in stored.items()):
                    if _is_of(log, reference):
                        pairs[_line_of(log, reference)] = str(reference.more.get("dialogue"))
    return pairs


def _pair_line(log: str, dialogue: str, position: str) -> str:
    return f"{log}/{dialogue}#{position}".replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _is_of(log: str, reference: Reference) -> bool:
    """Return whether a reference was found in a log."""
    return reference.source is Origin.RETRIEVED and reference.more.get("log") == log


def _line_of(log: str, reference: Reference) -> str:
    """Return the line of a reference that was found in a log."""
    dialogue = str(reference.more.get("dialogue"))
    return _pair_line(log, dialogue, str(reference.more.get("pair")).removeprefix(f"{log}/{dialogue}#"))


def _erase_from_log(order: Erase, context: JobContext) -> dict[str, object]:
    """Return the counts by the places of the names in the order: a stored job names none of them."""
    forget = encodings_in(context.home.cache).forget
    deletion = delete(context.home.logs, order.log, dialogues=order.dialogues, speakers=order.speakers, forget=forget)
    return {
        "pairs": deletion.pairs,
        "dialogues": [deletion.dialogues[name] for name in order.dialogues],
        "speakers": [deletion.speakers[name] for name in order.speakers],
        "pairs_left": deletion.pairs_left,
    }


# ── Indexes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _erase_from_indexes(order: Erase, context: JobContext) -> Iterator[Mapping[str, Any]]:
    """Update every index of the log, and remove versions that still hold erased text."""
    places = places_of(context.home)
    for name in places.indexes.names():
        versions = places.indexes.versions(name)
        if any(order.log in _logs_of(places, name, version, context) for version in versions):
            yield _retry_while_locked(lambda name=name: _erase_from_index(name, order, context, places))  # type: ignore[misc]


def _logs_of(places: Places, name: str, version: str, context: JobContext) -> list[str]:
    """Return the logs of a version; those of a damaged one are unknown, and it must not stop the others."""
    try:
        return [log.name for log in IndexManifest.read(places.indexes.folder(name, version)).logs]
    except Corrupt as error:
        context.progress.warn(f"{error.message}; what is erased from it cannot be known")
        return []


def _erase_from_index(name: str, order: Erase, context: JobContext, places: Places) -> Mapping[str, Any]:
    current = places.indexes.current(name)
    facts: dict[str, object] = {"index": name, "version": current, "published": current is not None}
    if current is not None and order.log in _logs_of(places, name, current, context):
        facts |= _update_index(name, order, context, places)

    def goes(version: str) -> bool:
        return version != facts["version"] if facts.get("compacted") else _holds_erased(places, name, version)

    removed = places.indexes.gc(name, 0, lambda _name, version: not goes(version))
    return {**facts, "removed": removed, "held": [one for one in places.indexes.versions(name) if goes(one)]}


def _remove_held(indexes: Sequence[Mapping[str, Any]], context: JobContext) -> dict[str, list[str]]:
    """Remove what was in use; servers take up the new version by themselves, and requests end."""
    versions = places_of(context.home).indexes

    def remove(name: str, held: Sequence[str]) -> None:
        if remaining := [one for one in versions.versions(name) if one in held]:
            versions.gc(name, 0, lambda _name, version: version not in held)
            remaining = [one for one in remaining if one in versions.versions(name)]
        if remaining:
            raise Conflict(
                f"index {name}: {', '.join(remaining)} still hold what was erased, and are in use",
                remedy="end what reads them, and retry the job",
            )

    held = {one["index"]: list(one["held"]) for one in indexes if one["held"]}
    for name, of_index in held.items():
        context.progress.stage(f"waiting for what reads older versions of index {name}")
        retry(partial(remove, name, of_index), on=Conflict, backoff=Backoff(_RETRY_S, _RETRY_S), within_s=_READERS_S)
    return held


def _update_index(name: str, order: Erase, context: JobContext, places: Places) -> dict[str, object]:
    """Update the index to its log: first masked, since that version is published in any case, then compacted."""
    threads, facts = context.threads(order.threads), dict[str, object]()
    updated = update_index(places, name, context.progress, threads=threads, memory=order.memory)
    if updated.built is not None:
        facts = {"version": updated.built.version, "changed": updated.changed, "gone": updated.gone}
    if not order.compact:
        return facts
    try:
        built = compact_index(places, name, context.progress, threads=threads, memory=order.memory)
    except SourceChanged:
        raise
    except (CheckFailed, BadInput) as error:  # such as logs without any pair, of which no index can be built
        context.progress.warn(f"{error.message}; what was erased is masked in index {name}, and still in its files")
        return {**facts, "compacted": False}
    return {**facts, "version": built.version, "compacted": True}


def _holds_erased(places: Places, name: str, version: str) -> bool:
    try:
        require_nothing_erased(places, name, version)
    except Conflict:
        return True
    return False


# ── Sets ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _withdraw_sets(order: Erase, context: JobContext) -> dict[str, object]:
    """Withdraw every set with an erased reference, and name a set without these instead; list those withdrawn."""
    sets = ReferenceSets(context.home.reference_sets)
    gone = _ErasedText.read(order, context)
    listed, unreadable = list[dict[str, object]](), list[str]()
    context.progress.stage("frozen sets", len(sets.ids()), "sets")
    for name in sets.ids():
        context.progress.advance(1)
        try:
            withdrawn = sets.withdrawal(name)
            if withdrawn is not None and withdrawn.reason != gone.reason:
                continue
            stored = sets.open(name, even_withdrawn=True)
            references = sum(gone.has(one) for item in stored.items() for one in item.references)
        except Corrupt as error:  # it must not keep erased text in the others, and in the indexes
            context.progress.warn(f"{error.message}; once set {name} can be read again, erase again")
            unreadable.append(name)
            continue
        if references:
            instead = withdrawn.instead if withdrawn is not None else _withdraw_set(sets, stored, gone, references)
            listed.append({"set": name, "references": references, "instead": instead})
    return {"of": listed, "unreadable": unreadable}


class _ErasedText:
    """The erased dialogues and pairs of a log."""

    def __init__(self, order: Erase, pairs: frozenset[str]) -> None:
        self._log, self._dialogues, self._pairs = order.log, frozenset(order.dialogues), pairs
        self.reason = f"it holds text that was erased from log {order.log}"

    @classmethod
    def read(cls, order: Erase, context: JobContext) -> _ErasedText:
        """Read the pairs that were written down before the log was changed."""
        path = context.stages.folder / _PAIRS
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        return cls(order, frozenset(filter(None, lines)))

    def has(self, reference: Reference) -> bool:
        """Return whether a reference was found in erased text."""
        return _is_of(self._log, reference) and (
            str(reference.more.get("dialogue")) in self._dialogues or _line_of(self._log, reference) in self._pairs
        )

    def without(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield the items without erased references."""
        for set_item in items:
            references = tuple(one for one in set_item.references if not self.has(one))
            yield replace(set_item, references=references)


def _withdraw_set(sets: ReferenceSets, stored: ReferenceSet, gone: _ErasedText, references: int) -> str | None:
    """Withdraw a set, and return the set to use instead, if any item remains."""
    manifest = stored.manifest
    making = SetDescription(
        purpose=manifest.purpose,
        provenance={**manifest.provenance, "erased": str(references)},
        details=manifest.details,
        parent=stored.id,
        how={"erase": {"references": references}},
    )
    remaining: Iterator[Item | BadItem] = gone.without(stored.items())
    try:
        instead = sets.freeze(remaining, making, called=f"set {stored.id}").set.id
    except BadInput:  # no item has a remaining reference
        instead = None
    sets.withdraw(stored.id, gone.reason, instead)
    return instead


# ── Evaluations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _remove_evaluations(order: Erase, context: JobContext) -> Iterator[Mapping[str, Any]]:
    """Remove every evaluation whose items have an erased reference: its scores are not to be had without."""
    evaluations, gone = EvaluationStore(context.home, context.serve), _ErasedText.read(order, context)
    context.progress.stage("evaluations")
    for name in evaluations.ids():
        try:
            view = open_view(evaluations.path(name, SCORES).parent, f"evaluation {name}")
            details = view.file.details
            rows = [] if details is None else details.document["items"]
            references = sum(gone.has(_written(fields)) for row in rows for fields in row.get("references", ()))
        except NotFound:  # it has expired, or has no scores
            continue
        except Corrupt as error:
            context.progress.warn(f"{error.message}; what is erased from evaluation {name} cannot be known")
            continue
        if references:
            evaluations.remove(name)
            report_change("remove", f"evaluation {name}")
            yield {"evaluation": name, "references": references}


def _written(fields: Mapping[str, Any]) -> Reference:
    """Return the reference with these fields, as far as its origin goes."""
    return Reference(text="", source=Origin(fields["source"]), more=fields)
