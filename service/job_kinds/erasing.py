"""Erasing: dialogues and speakers out of what was posted, out of a log, out of its indexes, and out of use in sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute

from core.errors import BadInput, CheckFailed, Conflict, Corrupt, Locked
from core.items import BadItem
from core.log_deletion import delete
from core.log_store import MANIFEST, StoredLog
from core.records import Item, Origin, Reference
from indexer.manifest import IndexManifest
from indexer.places import Places
from indexer.update import compact_index, require_nothing_erased, update_index
from service.job_kinds.orders import EraseJob
from service.job_kinds.work import Work, plain
from service.posted import Posted
from service.reference_sets import Making, ReferenceSet, ReferenceSets
from service.retrieval import cores, places_of

_PAIRS: Final = "pairs.txt"  # ids of all pairs that go, until the sets have been looked through
_WAIT_S: Final = 600.0  # for a command that works on the same log or index
_LOOK_S: Final = 0.5

T = TypeVar("T")


def erase_job(order: EraseJob, work: Work) -> Mapping[str, Any]:
    """Erase everywhere, step by step; a step that was done is not done again."""
    stages = work.stages
    posted = Posted(work.home, work.serve)
    is_there = (work.home.logs / order.log / MANIFEST).exists()
    if not is_there and not posted.waiting(order.log)["requests"]:
        StoredLog.open(work.home.logs, order.log)  # NotFound, with the names that there are
    work.progress.stage("posted dialogues")
    waiting = stages.run("posted", lambda: {"dialogues": _patient(lambda: _out_of_posted(posted, order))})
    stages.run("pairs", lambda: _pairs_written(order, work) if is_there else {"pairs": 0})
    work.progress.stage("the log")
    removed = stages.run("log", lambda: _patient(lambda: _out_of_log(order, work)) if is_there else {})
    # Sets need the log no more, and indexes may lack what they are updated with: that must not keep sets in use.
    sets = stages.run("sets", lambda: {"of": plain_list(_out_of_sets(order, work))})
    indexes = stages.run("indexes", lambda: {"of": plain_list(_out_of_indexes(order, work))})
    (stages.folder / _PAIRS).unlink(missing_ok=True)
    return {
        "log": order.log,
        "posted": waiting["dialogues"],
        "removed": {name: value for name, value in removed.items() if name != "seconds"},
        "indexes": indexes["of"],
        "sets": sets["of"],
    }


def plain_list(values: Iterator[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As JSON has them."""
    return [plain(one) for one in values]


def _patient(do: Callable[[], T]) -> T:
    """Wait for whoever works on the same thing: something half erased would be worse than late."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            return do()
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK_S)


# ── posted, and the log ───────────────────────────────────────────────────────────────────────────────────────────


def _out_of_posted(posted: Posted, order: EraseJob) -> int:
    return posted.erase(order.log, dialogues=order.dialogues, speakers=order.speakers)


def _pairs_written(order: EraseJob, work: Work) -> dict[str, Any]:
    """Write down which pairs go while the log still knows them: sets name them by their ids alone."""
    log, count = StoredLog.open(work.home.logs, order.log), 0
    dialogues, speakers = pa.array(order.dialogues, pa.string()), pa.array(order.speakers, pa.string())
    with (work.stages.folder / _PAIRS).open("w", encoding="utf-8", errors="backslashreplace") as file:
        for batch in log.batches(["dialogue", "position", "utterance_speaker", "response_speaker"]):
            hits = pa.compute.is_in(batch["dialogue"], dialogues)
            for side in ("utterance_speaker", "response_speaker"):
                hits = pa.compute.or_(hits, pa.compute.is_in(batch[side], speakers))
            for row in batch.filter(hits).select(["dialogue", "position"]).to_pylist():
                file.write(f"{_one_line(order.log, row['dialogue'], row['position'])}\n")
                count += 1
    return {"pairs": count}


def _one_line(log: str, dialogue: str, position: str) -> str:
    return f"{log}/{dialogue}#{position}".replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _out_of_log(order: EraseJob, work: Work) -> dict[str, Any]:
    found = asdict(delete(work.home.logs, order.log, dialogues=order.dialogues, speakers=order.speakers))
    return plain(found)


# ── indexes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _out_of_indexes(order: EraseJob, work: Work) -> Iterator[Mapping[str, Any]]:
    """Every index of the log is brought up to it, and versions that still hold what was erased are removed."""
    places = places_of(work.home)
    for name in places.indexes.names():
        versions = places.indexes.versions(name)
        if any(order.log in _logs(places, name, version, work) for version in versions):
            yield _patient(lambda name=name: _out_of_index(name, order, work, places))  # type: ignore[misc]


def _logs(places: Places, name: str, version: str, work: Work) -> list[str]:
    """The logs of a version; of a damaged one nobody knows, and it must not keep the others from being looked at."""
    try:
        return [log.name for log in IndexManifest.read(places.indexes.folder(name, version)).logs]
    except Corrupt as error:
        work.progress.warn(f"{error.message}; what is erased from it cannot be known")
        return []


def _out_of_index(name: str, order: EraseJob, work: Work, places: Places) -> Mapping[str, Any]:
    current = places.indexes.current(name)
    found: dict[str, Any] = {"index": name, "version": current, "published": current is not None}
    if current is not None and order.log in _logs(places, name, current, work):
        found |= _brought_up(name, order, work, places)

    def goes(version: str) -> bool:
        return version != found["version"] if found.get("compacted") else _holds_erased(places, name, version)

    removed = places.indexes.gc(name, 0, lambda _name, version: not goes(version))
    held = [one for one in places.indexes.versions(name) if goes(one)]
    if held:
        work.progress.warn(f"index {name}: {', '.join(held)} still hold what was erased, and are in use")
    return {**found, "removed": removed, "held": held}


def _brought_up(name: str, order: EraseJob, work: Work, places: Places) -> dict[str, Any]:
    """The index as its log is now: masked first, whatever is wanted, since that is published come what may."""
    threads, found = order.threads or cores(), dict[str, Any]()
    updated = update_index(places, name, work.progress, threads=threads, memory=order.memory)
    if updated.built is not None:
        found = {"version": updated.built.version, "changed": updated.changed, "gone": updated.gone}
    if not order.compact:
        return found
    try:
        built = compact_index(places, name, work.progress, threads=threads, memory=order.memory)
    except CheckFailed as error:
        work.progress.warn(f"{error.message}; what was erased is masked in index {name}, and still in its files")
        return {**found, "compacted": False}
    return {**found, "version": built.version, "compacted": True}


def _holds_erased(places: Places, name: str, version: str) -> bool:
    try:
        require_nothing_erased(places, name, version)
    except Conflict:
        return True
    return False


# ── sets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _out_of_sets(order: EraseJob, work: Work) -> Iterator[Mapping[str, Any]]:
    """Every set with a reference of what was erased is withdrawn, and one without them is named instead."""
    sets = ReferenceSets(work.home.reference_sets)
    gone = _Gone.read(order, work)
    work.progress.stage("frozen sets", len(sets.ids()), "sets")
    for name in sets.ids():
        work.progress.advance(1)
        withdrawn = sets.withdrawal(name)
        if withdrawn is not None and withdrawn.reason != gone.reason:
            continue
        stored = sets.open(name, even_withdrawn=True)
        references = sum(gone.has(one) for item in stored.items() for one in item.pair.references)
        if references:
            instead = withdrawn.instead if withdrawn is not None else _withdrawn(sets, stored, gone, references)
            yield {"set": name, "references": references, "instead": instead}


class _Gone:
    """Which references are of what was erased."""

    def __init__(self, order: EraseJob, pairs: frozenset[str]) -> None:
        self._log, self._dialogues, self._pairs = order.log, frozenset(order.dialogues), pairs
        self.reason = f"it holds text that was erased from log {order.log}"

    @classmethod
    def read(cls, order: EraseJob, work: Work) -> _Gone:
        """The pairs that were written down before the log forgot them."""
        path = work.stages.folder / _PAIRS
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        return cls(order, frozenset(filter(None, lines)))

    def has(self, one: Reference) -> bool:
        """Whether a reference was found in what was erased."""
        if one.source is not Origin.RETRIEVED or one.more.get("log") != self._log:
            return False
        dialogue, pair = str(one.more.get("dialogue")), str(one.more.get("pair"))
        position = pair.removeprefix(f"{self._log}/{dialogue}#")
        return dialogue in self._dialogues or _one_line(self._log, dialogue, position) in self._pairs

    def without(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items without them."""
        for item in items:
            kept = tuple(one for one in item.pair.references if not self.has(one))
            yield replace(item, pair=replace(item.pair, references=kept))


def _withdrawn(sets: ReferenceSets, stored: ReferenceSet, gone: _Gone, references: int) -> str | None:
    """Withdraw a set; the one to use instead, if anything is left of it."""
    manifest = stored.manifest
    making = Making(
        purpose=manifest.purpose,
        provenance=manifest.provenance,
        details=manifest.details,
        parent=stored.id,
        how={"erase": {"references": references}},
    )
    left: Iterator[Item | BadItem] = gone.without(stored.items())
    try:
        instead = sets.freeze(left, making, called=f"set {stored.id}").set.id
    except BadInput:  # no item has a reference left
        instead = None
    sets.withdraw(stored.id, gone.reason, instead)
    return instead


WORK: Final = {"erase": erase_job}
