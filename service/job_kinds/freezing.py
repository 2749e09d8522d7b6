"""Jobs that freeze sets too large for an answer to wait for; items that were sent lie in a file until then."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from core.errors import BadInput, NoSource, Usage
from core.files import write_aside
from core.items import BadItem, read_items
from core.records import Item
from indexer.queries import SearchSettings
from rater.rate import RatingSettings
from service.augment import AugmentSettings, augment, provenance, provenance_details
from service.job_kinds.orders import FreezeJob, ReferenceSettings, moment_of
from service.job_kinds.sources import require_source
from service.job_kinds.work import Work, jobs_folder, plain
from service.rating import open_rater
from service.reference_sets import Frozen, Making, Purpose, ReferenceSets
from service.retrieval import cores, open_index
from service.settings import Settings

_NAME: Final = re.compile(r"items-[0-9a-f]{32}")
_SHOWN: Final = 100  # of the items that could not be used; the rest is counted


def put_items(home: Settings, lines: Iterable[bytes]) -> str:
    """Keep items, each a line of JSON, for a job that freezes them; the name by which its order calls them."""
    name = f"items-{secrets.token_hex(16)}"
    with write_aside(_path(home, name)) as file:
        for line in lines:
            file.write(line.rstrip(b"\n") + b"\n")
    return name


def _path(home: Settings, name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise Usage(f"{name[:80]!r} is no name of stored items")
    return jobs_folder(home) / f"{name}.jsonl"


def freeze_job(order: FreezeJob, work: Work) -> Mapping[str, Any]:
    """Freeze items with the references that an index has for them, or as they are."""
    called = "items" if order.source is None else order.source
    # Marked before the items go: a kill between the two must find the answer, since it finds no items.
    result = work.stages.run("frozen", lambda: plain(_result(_frozen(order, _source(order, work), called, work))))
    if order.items is not None:
        _path(work.home, order.items).unlink(missing_ok=True)
    return {name: value for name, value in result.items() if name != "seconds"}


def _source(order: FreezeJob, work: Work) -> Path:
    if order.items is None:
        return require_source(str(order.source), work.home, work.serve)
    path = _path(work.home, order.items)
    if not path.exists():
        raise NoSource(f"{order.items}: these items are not here any more", remedy="send them again")
    return path


def _frozen(order: FreezeJob, path: Path, called: str, work: Work) -> Frozen:
    """As `refaug sets freeze` does it, so that the same items make the same set."""
    sets, purpose = ReferenceSets(work.home.reference_sets), Purpose(order.purpose)
    listed = read_items(path, called=called, unknown=lambda name: work.progress.warn(f"field {name!r} is not used"))

    def check(bad: Sequence[BadItem]) -> None:
        if order.strict and bad:
            raise BadInput(
                f"{len(bad):,} items could not be used: {bad[0]}",
                remedy='mend or leave them out; with "strict": false the others are frozen',
            )

    if order.index is None:
        work.progress.stage("freeze")
        return sets.freeze(
            listed, Making(purpose=purpose, how={"freeze": {"references": "given"}}), called=called, check=check
        )
    settings = augmenting(order.settings or ReferenceSettings())
    if settings.needs_rater and order.rater is None:
        raise Usage("something is to be rated, and no rater is named", remedy="rater, or weights one and parrot off")
    if order.rater is not None and not settings.needs_rater:
        raise Usage("a rater, and nothing is to be rated", remedy="leave rater out, or ask for rated weights")
    threads = order.threads or cores()
    rater = open_rater(work.home, order.rater, threads=threads) if order.rater is not None else None
    notes = Counter[str]()
    with open_index(work.home, order.index, threads=threads) as index:

        def with_references() -> Iterator[Item | BadItem]:
            for one in augment(listed, index, rater, settings, work.progress):
                if not isinstance(one, BadItem) and one.note:
                    notes[one.note] += 1
                yield one if isinstance(one, BadItem) else one.item

        making = Making(
            purpose=purpose,
            provenance=provenance(index, rater, settings),
            details=provenance_details(index, settings),
            how={"freeze": {"references": "found"}},
        )
        frozen = sets.freeze(with_references(), making, called=called, check=check)
    for note, count in notes.most_common():
        work.progress.warn(f"{count:,} items: {note}")
    return frozen


def augmenting(asked: ReferenceSettings) -> AugmentSettings:
    """The same as those who find and weigh take it."""
    return AugmentSettings(
        search=SearchSettings(
            k=asked.k,
            mode=asked.mode,
            alpha=asked.alpha,
            epsilon=asked.epsilon,
            depth=asked.depth,
            after=None if asked.after is None else moment_of(asked.after),
            before=None if asked.before is None else moment_of(asked.before),
            exclude_logs=tuple(asked.exclude_logs),
            near=asked.near,
            near_tokens=asked.near_tokens,
        ),
        rating=RatingSettings(combine=asked.combine, calibration="cal" if asked.calibrated else "raw"),
        gold=asked.gold,
        parrot=asked.parrot,
        weights=asked.weights,
    )


def _result(found: Frozen) -> dict[str, Any]:
    manifest = found.set.manifest
    return {
        "set": manifest.id,
        "new": found.is_new,
        "purpose": manifest.purpose.value,
        "items": manifest.items,
        "references": manifest.references,
        "provenance": dict(manifest.provenance),
        "problems": [asdict(bad) for bad in found.bad_items[:_SHOWN]],
        "more_problems": max(0, len(found.bad_items) - _SHOWN),
    }


WORK: Final = {"freeze": freeze_job}
