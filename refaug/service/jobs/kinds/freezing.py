"""Jobs that freeze sets too large to freeze during a request; posted items wait in a file until then."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, NoSource, Usage
from refaug.core.files import write_aside
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.metric_setup.scoring_steps import open_references
from refaug.evaluation.scoring.items import BadItem, read_items
from refaug.evaluation.scoring.reference_sets.set_manifest import Purpose, SetDescription
from refaug.evaluation.scoring.reference_sets.set_store import FreezeResult, ReferenceSets
from refaug.operations.references.freeze_set import FreezeSet
from refaug.service.jobs.clusters import allowed_cluster
from refaug.service.jobs.kinds.job_context import JobContext, as_json, jobs_folder
from refaug.service.jobs.kinds.sources import require_source

_NAME: Final = re.compile(r"items-[0-9a-f]{32}")
_MAX_SHOWN: Final = 100  # bad items to list; the others are counted


def put_items(home: Settings, lines: Iterable[bytes]) -> str:
    """Store items, one line of JSON each, for a job that freezes them, and return the name for its order."""
    name = f"items-{secrets.token_hex(16)}"
    with write_aside(_path(home, name)) as file:
        for line in lines:
            file.write(line.rstrip(b"\n") + b"\n")
    return name


def _path(home: Settings, name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise Usage(f"{name[:80]!r} is no name of stored items")
    return jobs_folder(home) / f"{name}.jsonl"


def freeze_job(order: FreezeSet, context: JobContext) -> Mapping[str, Any]:
    """Freeze items with references from an index, or as they are."""
    # The result is stored before the items are removed: after a kill between the two, the job needs only the result.
    outcome = context.stages.run("frozen", lambda: as_json(_frozen_facts(_freeze(order, context))))
    if order.are_posted:
        _path(context.home, order.items).unlink(missing_ok=True)
    return {name: value for name, value in outcome.items() if name != "seconds"}


def _source(order: FreezeSet, context: JobContext) -> Path:
    if not order.are_posted:
        return require_source(order.items, context.home, context.serve)
    path = _path(context.home, order.items)
    if not path.exists():
        raise NoSource(f"{order.items}: these items are not here any more", remedy="send them again")
    return path


def _freeze(order: FreezeSet, context: JobContext) -> FreezeResult:
    def check(bad: Sequence[BadItem]) -> None:
        if order.strict and bad:
            raise BadInput(
                f"{len(bad):,} items could not be used: {bad[0]}",
                remedy='mend or leave them out; with "strict": false the others are frozen',
            )

    path, shown_name = _source(order, context), "items" if order.are_posted else order.items
    on = allowed_cluster(order.on, context.serve)
    order = replace(order, threads=context.reference_threads(order), on=on)
    return freeze_items(context.home, order, path, shown_name, check, context.progress)


def freeze_items(
    home: Settings,
    order: FreezeSet,
    path: Path,
    shown_name: str,
    check: Callable[[Sequence[BadItem]], None],
    progress: Progress,
) -> FreezeResult:
    """Freeze the items of a file; the same items make the same set, by a command or a job.

    `check` gets the items that cannot be frozen, and raises where nothing is to be frozen then.
    """
    sets, purpose = ReferenceSets(home.reference_sets), Purpose(order.purpose)
    listed = read_items(path, shown_name=shown_name, on_unknown_field=progress.warn, table=order.table)
    if order.index is None:
        progress.stage("freeze")
        supplied = SetDescription(purpose=purpose, how={"freeze": {"references": "given"}})
        return sets.freeze(listed, supplied, called=shown_name, check=check)
    notes = Counter[str]()
    with open_references(
        home, order.index, order.rater, order.settings, order.threads, progress, order.on
    ) as references:

        def with_references() -> Iterator[Item | BadItem]:
            for augmented in references.augment(listed, progress):
                if not isinstance(augmented, BadItem) and augmented.note:
                    notes[augmented.note] += 1
                yield augmented if isinstance(augmented, BadItem) else augmented.item

        retrieved = SetDescription(
            purpose=purpose,
            provenance=references.provenance.settings,
            details=references.provenance.details,
            how={"freeze": {"references": "found"}},
        )
        frozen = sets.freeze(with_references(), retrieved, called=shown_name, check=check)
    for note, count in notes.most_common():
        progress.warn(f"{count:,} {'item' if count == 1 else 'items'}: {note}")
    return frozen


def _frozen_facts(frozen: FreezeResult) -> dict[str, Any]:
    manifest = frozen.set.manifest
    return {
        "set": manifest.id,
        "new": frozen.is_new,
        "purpose": manifest.purpose.value,
        "items": manifest.items,
        "references": manifest.references,
        "provenance": dict(manifest.provenance),
        "problems": [asdict(bad) for bad in frozen.bad_items[:_MAX_SHOWN]],
        "more_problems": max(0, len(frozen.bad_items) - _MAX_SHOWN),
    }


JOB_FUNCTIONS: Final = {"freeze": freeze_job}
